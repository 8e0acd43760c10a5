"""Answers from a release's noisy tables and sets, regressions, and what a plan promises.

It may import all rooms below it except `confidential` and the noise.
"""
