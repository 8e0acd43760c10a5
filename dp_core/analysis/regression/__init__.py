"""Regressions on the m sets of a release: design and fits. statsmodels does the fitting.

Read `analysis` first.
"""
