"""Regressions on the sets of a release, and comparisons of methods on public data.

The top room of `dp_core`: it may import all others except `confidential` and the noise.
"""
