"""The `servo` command."""
