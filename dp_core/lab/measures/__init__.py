"""Measures by which methods are compared, as pure functions of tables, records or estimates.

One file per measure. Imports `kernel` and `metrics` only. What a release itself shows
or checks is in `metrics`.
"""
