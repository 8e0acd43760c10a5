"""How far the sets and tables of a release can be relied on, from public figures alone.

Read `table_fit` first.
"""
