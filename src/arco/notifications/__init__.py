"""Notifications: reports events to the recipients of rules."""
