"""Where data comes from: edges between assets and between their columns."""
