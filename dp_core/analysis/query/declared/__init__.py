"""Answers from the statistics that a release declared: `declared_sums`."""
