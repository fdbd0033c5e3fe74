"""Performs what controllers decided: the loop, the queues, the reports."""
