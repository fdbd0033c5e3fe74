"""Controllers: pure functions of what the board shows, and of the time, to actions."""
