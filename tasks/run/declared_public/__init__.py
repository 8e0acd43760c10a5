"""Data that a person declares public: they are looked up in the ledger before they are used.

`public_input` records the declaration and refuses data of an account; comparisons, drafts of
schemas and priors call it. It also gives the keyed hashes by which the ledger recognises files.
`priors` finds the public records that a spec names under `prior`.
"""
