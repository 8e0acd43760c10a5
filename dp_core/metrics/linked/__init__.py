"""Counts and distances of files of households and their members, from pair rows.

Read `household_tally` first.
"""
