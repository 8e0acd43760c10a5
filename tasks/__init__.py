"""The steps of a release on real files, databases and clusters.

`stages` has one file per stage. `ledger` keeps the ledger in SQLite or PostgreSQL, `inputs`
opens the data, `validation` and `counting` use Great Expectations and Dask, and `run` holds what
the stages of one run share. `support` serves all of them. `tasks` imports `dp_core`, never `flows`.
"""
