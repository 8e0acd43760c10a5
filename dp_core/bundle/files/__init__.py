"""The files of a bundle beside statement and report, and what they are made from.

Read `published` first: it lists everything that a bundle is made from.
"""
