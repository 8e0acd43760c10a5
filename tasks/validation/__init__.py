"""Checks with Great Expectations whether the confidential file fits its schema.

Read `expectations` first, then `suite_judge`, which gives the verdict.
"""
