"""Great Expectations judges whether the confidential file fits its schema, and what sets meet.

Read `expectations` first, then `suite_judge`, which gives the verdict. `judged_sets` is for the
process that holds no row.
"""
