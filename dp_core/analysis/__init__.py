"""Answers from the noisy tables of a release, regressions on its sets, and what a plan promises.

It may import all rooms below it except `confidential` and the noise.
"""
