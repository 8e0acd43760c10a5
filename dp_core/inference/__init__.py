"""Estimates and intervals from m synthetic sets, as pure functions of arrays.

Imports `schema` and below. Read `rules` (which combining rule each way to make sets needs),
then `combine`.
"""
