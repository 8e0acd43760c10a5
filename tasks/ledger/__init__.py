"""The ledger on SQLite and PostgreSQL: accounts, reservations, charges, leases and decisions.

Read `ledger` first, then `reservation_check` (whether a release may begin), `release_writer` (what
the holder of a lease writes) and the room `charging` (what the confidential process writes).
`ledger_reader` and `accounts` read it for people. The rules are in `dp_core.kernel.ledger`.
"""
