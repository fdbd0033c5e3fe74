"""Who asks for runs when nobody does: schedules."""
