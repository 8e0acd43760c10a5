"""Synthesis of columns in sequence, each by a private regression on those before it.

Read `column_by_column` first, then `functional_mechanism` (what is asked of the data) and
`fitted_regressions` (the fit).
"""
