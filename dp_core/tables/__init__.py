"""Records as integer codes, and tables that count them.

Arithmetic on arrays, used on both sides of the wall; it imports `documents` only. Read `domain` and
`dataset` first, then `counting`. `marginal` is the type of exact counts, which are confidential.
"""
