"""What can be read: functions of a view, of what the caller sees, and of parameters."""
