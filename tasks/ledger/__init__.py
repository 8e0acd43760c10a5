"""The ledger on SQLite and PostgreSQL: accounts, reservations, charges, leases and decisions.

Read `ledger` first, then `reservation_check` (may a release begin), `release_writer` (what the
holder of a lease may write) and `ledger_session` (charge, draw, store, commit). What people read
of it is in `ledger_reader` and `accounts`. The rules are in `dp_core.wall.ledger`.
"""
