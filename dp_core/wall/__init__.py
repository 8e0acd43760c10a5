"""The trusted core: the only code that turns exact counts into values that may be published.

It imports `schema` and the layers below it, never `confidential`. Read `curator` first: every
question about the data passes through it. `statistics` is the closed list of allowed questions,
each with the proof of its sensitivity. `noise` draws the noise, `accounting` computes the cost of a
draw, and `ledger` has the rules for recording costs. `released` has the types of the results.
"""
