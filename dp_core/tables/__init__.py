"""Records as integer codes, and tables of their counts.

Both sides of the wall use this arithmetic on arrays; it imports `text` only. Read `domain` and
`dataset` first, then `counting`. `marginal` defines the type of exact counts, which are
confidential. `processors` says how many threads may share the work.
"""
