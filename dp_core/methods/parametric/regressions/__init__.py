"""Synthesis of columns in sequence, each by a private regression on those before it.

Read `chained_regressions` first, then `regression_questions` (what is asked of the data) and
`fitted_regressions` (the fit).
"""
