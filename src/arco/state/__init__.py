"""Tables folded from the log: files, merges, snapshots, and upkeep."""
