"""Answers: health of assets, causes, recommendations, and differences."""
