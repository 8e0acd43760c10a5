"""Regressions on the sets of a release, and comparisons of methods on public data.

The uppermost room of `dp_core`: it may import all others but `confidential` and the noise.
"""
