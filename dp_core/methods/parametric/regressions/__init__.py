"""Synthesis of one column after another by private regressions.

Read `chained_regressions` first, then `regression_questions` (what is asked of the data) and
`fitted_regressions` (the fit).
"""
