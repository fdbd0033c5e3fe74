"""Performs what controllers decided."""
