"""Distances between tables, records and estimates, as pure functions of arrays.

Imports `tables` only. One file for each measure.
"""
