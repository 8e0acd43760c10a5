"""Graphical models: junction trees, their fit to noisy tables, and answers and records from them."""
