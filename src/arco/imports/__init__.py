"""Imports from other tools: their assets, in the catalog and in lineage."""
