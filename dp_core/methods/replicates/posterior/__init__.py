"""Posterior sets: each set is made from a draw from the posterior distribution of the exact tables.

Public side of the wall: noisy values only. May import the rest of `methods`, `kernel` and the
released results. Read `posterior_tables` first; then `column_draws` and `pair_prior` with
`pair_draws`; `larger_draws` adds tables of three columns and more, and `joint_draws` is for a table
of all columns; `truncation` and `agreement` hold the arithmetic that they share.
"""
