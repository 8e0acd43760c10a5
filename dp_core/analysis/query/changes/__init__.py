"""Changes between two releases: both answer the same question.

Read `comparable` (which releases and levels can be compared), then `change_intervals` (the change
of each group with its interval) and `change_answer` (the answer of `query --since`).
"""
