"""What can be changed: functions of the caller's commands, of parameters and of a body."""
