"""Reports of others: outputs, checks and lineage of tables that Arco did not write."""
