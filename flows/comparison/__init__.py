"""A comparison of methods on public data: its request, its processes and their progress.

Read `comparison` first.
"""
