"""What is said of accounts and guarantees beside the kernel: nothing here decides a draw.

Imports the kernel only. `chain_audit` checks a whole ledger from its entries, `signatures` are of
its keys, and `ledger_position` is what a release states of it. `guarantee` states what a release
protects; `loss_distribution` (with `losses`) and `account_curve` find the tightest figures, which
nothing enforces. `largest_release` forecasts, and `memory_session` pays in memory.
"""
