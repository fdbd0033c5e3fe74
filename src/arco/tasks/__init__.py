"""Outputs and failures of tasks, with and without Spark."""
