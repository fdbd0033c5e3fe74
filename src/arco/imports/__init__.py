"""What other tools know of data: their assets, in the catalog and in lineage."""
