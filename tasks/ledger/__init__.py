"""The ledger on SQLite and PostgreSQL: accounts, reservations, charges, leases and decisions.

Read `ledger` first, then `release_writer` (what the holder of a release may write) and
`ledger_session` (charge, draw, store, commit). The rules are in `dp_core.wall.ledger`.
"""
