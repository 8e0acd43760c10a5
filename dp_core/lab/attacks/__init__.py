"""Attacks on synthetic records: how often each succeeds, beside its baseline and its interval.

Pure functions of datasets: `members`, records from which the synthetic ones were made; `control`,
records of the same population from which they were not; and the synthetic records. An attack that
succeeds as often on the control learnt about the population, not about a person. Start with
`attack_audit`, which carries out all of them. Imports `kernel`, `metrics` and `field_scores` only.
"""
