"""The HTTP API: the same readers and commands as the command line, for callers with rights."""
