"""Where a run and the ledger are kept."""
