"""How a selection divides its budget: shares of tables, and the noise each table is worth.

Read `allocation` first, then `balance` (pairs) and `residual_balance` (interactions).
"""
