"""Does the confidential file fit its schema? Great Expectations judges.

Read `expectations` first.
"""
