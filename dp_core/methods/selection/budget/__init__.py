"""Division of the measuring budget: the share and the noise of each table.

Read `allocation` first, then `balance` (pairs) and `residual_balance` (interactions). For wanted
tables read `workload` and `wanted_shares`.
"""
