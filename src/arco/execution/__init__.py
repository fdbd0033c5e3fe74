"""The outputs of runs: versions of partitions, and which of them are current."""
