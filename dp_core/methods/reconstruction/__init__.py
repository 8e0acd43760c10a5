"""From noisy tables to a model from which records are drawn. One method, one file, found by its name.

Read `base` first.
"""
