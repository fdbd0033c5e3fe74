"""Whether data is good: the results of checks."""
