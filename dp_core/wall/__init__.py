"""The trusted core: the only code that turns exact counts into values that may be published.

Imports `schema` and below, never `confidential`. Read `curator` first: every question to the data
passes it. `statistics` is the closed list of what may be asked, each with its proof. `noise` draws,
`accounting` says what a draw costs, and `ledger` holds the rules by which costs are recorded.
`released` holds the types of what comes out.
"""
