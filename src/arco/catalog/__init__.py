"""The catalog core: namespaces, assets and their columns."""
