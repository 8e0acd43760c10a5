"""Models with one table of all columns, and methods to fit it to noisy tables and answers.

Read `joint_model` first, then `dense_answers`. Imports `estimates` and `sampling`.
"""
