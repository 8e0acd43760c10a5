"""Bins and levels that are chosen privately: the questions to the file, and the cuts that follow.

Read `questions` first.
"""
