"""Estimates and intervals from m synthetic sets, as pure functions of arrays.

Imports `schema` and below. Read `combining_rules` (which rule goes with how the sets were made),
then `combine` and `intervals`; `formulas` and `questions` are the two languages that people type.
The margins of error of tables are elsewhere: `metrics.noise_size`.
"""
