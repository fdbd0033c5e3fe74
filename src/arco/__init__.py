"""The platform: a log on object storage, the state folded from it, and its readers."""
