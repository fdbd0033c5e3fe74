"""Runs as OpenLineage events, which other catalogs understand."""
