"""Sums of numbers that are first cut to public limits, a separate one for each group of records."""
