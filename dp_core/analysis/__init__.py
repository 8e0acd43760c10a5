"""What a data user or a methodologist does with a release: regressions, and comparisons of methods.

The uppermost room of `dp_core`: it may import all others but `confidential` and the noise.
"""
