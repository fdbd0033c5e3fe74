"""Runs: planned, folded, controlled."""
