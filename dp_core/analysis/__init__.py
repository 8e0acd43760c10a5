"""Answers from the noisy tables of a release, and regressions on its sets.

It may import all rooms below it except `confidential` and the noise.
"""
