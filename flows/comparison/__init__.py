"""Comparisons of methods on public data: requests, processes and their progress.

Read `comparison` first.
"""
