"""Regressions on the m sets of a release: formula, design, fits; statsmodels does the fitting."""
