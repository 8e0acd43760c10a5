"""Methods that choose the tables to measure. One file per method, found by its name.

Read `selector` first (the base classes), then `one_way`, the shortest method. `budget` divides the
measuring budget among tables; `candidates` lists and scores the tables or records that a method can
choose.
"""
