"""Which tables to measure. One method, one file, found by its name.

Read `selector` first (the base classes), then `one_way`, the shortest method. `budget` divides the
measuring budget and `candidates` lists and scores what can be chosen; both serve several methods.
"""
