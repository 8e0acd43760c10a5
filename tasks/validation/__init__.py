"""Checks with Great Expectations whether the confidential file fits its schema.

Read `expectations` first.
"""
