"""A worker: from a signed envelope to a committed output and a result."""
