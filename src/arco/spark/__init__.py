"""Everything that needs Spark."""
