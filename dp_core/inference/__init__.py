"""Estimates and intervals from m synthetic sets, as pure functions of arrays.

Imports `schema` and below. Read `rules` (which combining rule goes with how the sets were made),
then `combine`.
"""
