"""What others report: outputs, checks and lineage of tables that Arco did not write."""
