"""Releases in memory of data that anybody may see: no ledger, no receipts, nothing protected.

This room joins the two sides of the wall for public data, tests and teaching, and no release
imports it. `public_release` is `dp_core.release`; read it first. `frame_columns` turns the columns
of a pandas frame into Arrow arrays, and `frame_codes` into codes, or says everything that does not
fit. May import all other rooms but `audit`.
"""
