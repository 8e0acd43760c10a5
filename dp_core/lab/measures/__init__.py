"""Measures by which methods are compared, as pure functions of tables, records or estimates.

One file per measure. Imports `tables` and `metrics` only. What a release itself shows
or checks is in `metrics`.
"""
