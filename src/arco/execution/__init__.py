"""What runs have put out: versions of partitions, and which of them are current."""
