"""How reliable the sets and tables of a release are, from public figures alone.

Read `table_fit` first.
"""
