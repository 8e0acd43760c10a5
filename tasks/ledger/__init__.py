"""The ledger on SQLite and PostgreSQL: accounts, reservations, charges, leases and decisions.

Read `ledger` first, then `reservation_check` (whether a release may begin), `release_writer` (what
the holder of a lease may write) and `ledger_session` (charge, draw, store, commit).
`ledger_reader` and `accounts` read it for people. The rules are in `dp_core.kernel.ledger`.
"""
