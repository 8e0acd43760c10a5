"""Compares methods on data that may be looked at: which runs, which figures, tables and plots.

Read `variants` (which runs), `judging` (which figures) and `summary`.
"""
