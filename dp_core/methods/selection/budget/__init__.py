"""Division of the measuring budget: the share and the noise of each table.

Read `workload` first, then `residual_balance` (interactions). For wanted tables read
`wanted_shares`.
"""
