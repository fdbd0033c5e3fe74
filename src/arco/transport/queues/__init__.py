"""Queues between dispatchers and workers."""
