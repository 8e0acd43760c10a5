"""Records as integer codes, and tables of their counts.

Read `domain` and `dataset` first, then `cell_counts`. `marginal` defines the type of exact counts,
which are confidential, and the protocol of what counts them; `household_counter` counts households
by another counter. `processors` says how many threads may share the work.
"""
