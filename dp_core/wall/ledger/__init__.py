"""The ledger without its database: sessions, receipts, entries, and the rules that they keep."""
