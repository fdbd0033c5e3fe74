"""Columns and their types, the same for Arrow, DuckDB and Spark."""
