"""Graphical models: junction trees, their fit to noisy tables, answers and records of them."""
