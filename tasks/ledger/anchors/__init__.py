"""Anchors: notes of a ledger's head outside its database, and the check against them.

The chain reveals changed entries. It does not reveal that the last entries are missing, that the
whole database was replaced, or that two copies of it are in use. Notes of the head in the home and
outside it, and the place that a ledger records, reveal all three. Read `anchor_notes` first, then
`ledger_anchor`. May import `tasks.ledger.database`, `tasks.support` and `dp_core`.
"""
