"""Answers from the noisy tables of a release, regressions on its sets, comparisons of methods.

The top room of `dp_core`: it may import all others except `confidential` and the noise.
"""
