"""The trusted core: the only code that turns exact counts into values that may be published.

Imports `schema` and below, never `confidential`. Read `curator` first: every question about the
data passes through it. `statistics` is the closed list of what may be asked, each with its proof.
`noise` draws, `accounting` says what a draw costs, and `ledger` holds the rules for recording
costs. `released` holds the types of the results.
"""
