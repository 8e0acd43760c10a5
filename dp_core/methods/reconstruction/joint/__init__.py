"""Models that hold one table of all columns, and the ways to fit it to noisy answers.

Read `joint_model` first, then `dense_answers`. Imports `estimates` and `sampling`.
"""
