"""Answers: how healthy assets are, why, what to do about it, and what changed."""
