"""The ordered log of a workspace: append, segments, and the commit protocol."""
