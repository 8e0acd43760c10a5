"""Compares methods on public data: the runs, figures, tables and plots.

Read `variants` (which runs), `judging` (which figures) and `summary`.
"""
