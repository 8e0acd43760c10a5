"""Distances between tables, for checks and benchmarks."""
