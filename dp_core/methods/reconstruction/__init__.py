"""From noisy tables to a model that draws records. One method, one file.

Read `base` first.
"""
