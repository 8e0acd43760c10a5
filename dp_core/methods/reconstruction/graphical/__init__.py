"""Graphical models: junction trees, their fit to noisy tables, and their answers and records."""
