"""Synthesis of columns in sequence, each by a private regression on those before it.

Read `column_by_column` first, then `regression_questions` (what is asked of the data) and
`fitted_regressions` (the fit).
"""
