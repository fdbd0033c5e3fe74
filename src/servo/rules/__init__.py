"""What must hold of a project's assets, one concern a file."""
