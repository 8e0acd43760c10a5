"""Scores of how strongly columns depend on one another, for private selection."""
