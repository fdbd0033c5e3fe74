"""Notifications: what happened, told to whom a rule names."""
