"""Exact counts of the confidential file, computed with Dask.

Read `dask_counter` first.
"""
