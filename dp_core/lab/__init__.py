"""For methodologists and staff: comparisons of methods, and of sets with their data.

No other room imports this one. It imports all rooms but `audit`, `public_data`, `confidential` and
the noise. Read `comparison` (methods on public data: runs, figures, pages) or `evaluation` (scores
of the field and attacks, as values and as a page); `measures`, `field_scores` and `attacks` are
pure functions of datasets and tables.
"""
