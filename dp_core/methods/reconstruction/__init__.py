"""Methods that fit a model to noisy tables and draw records from it. One file per method.

Read `reconstructor` first (the protocols), then `independent`, a short method. Shared by several
methods: `estimates` (better tables from noisy ones), `joint` (one table of all columns),
`graphical` (junction trees), `sampling` (drawing records) and `kernels` (compiled loops).
"""
