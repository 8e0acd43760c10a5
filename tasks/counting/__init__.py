"""Exact counts over Dask. Confidential.

Read `dask_counter` first.
"""
