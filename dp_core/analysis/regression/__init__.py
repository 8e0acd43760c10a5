"""Regressions on the m sets of a release: designs, and fits by statsmodels.

Read `analysis` first.
"""
