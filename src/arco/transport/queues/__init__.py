"""Queues: between whoever dispatches tasks and whoever works on them."""
