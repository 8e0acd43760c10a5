"""Two linked tables, households and persons, as one flat table of pair rows.

A household with s >= 2 members has s(s - 1) pair rows, one for each ordered pair of different
members; a household with fewer members has one. `linked_tables` says what is linked and what a pair
row weighs; the other modules translate between the two tables and the pair rows.
"""
