"""Distances between tables, records and estimates, as pure functions of arrays.

Imports `tables` only. One file per measure, and `resource_usage` for the cost of a piece of work.
"""
