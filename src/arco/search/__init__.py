"""Search: documents that the fold derives from the catalog, and their ranking."""
