"""How reliable the sets and tables of a release are, from public figures alone.

Read `table_fit` first: of every noisy table, its margin of error and the distance of the sets.
What the report says of that is in `report.table_precision`.
"""
