"""Column lineage out of Spark's analyzed plans."""
