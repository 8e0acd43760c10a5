"""Which tables to measure. One method, one file, found by its name.

Read `base` first.
"""
