"""What commands answer, as plain values: of releases, plans, the ledger and regressions."""
