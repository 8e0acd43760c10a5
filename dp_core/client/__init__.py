"""The kernel's client: whom methods ask, and what crossed the wall. Public values only.

Imports the kernel. Read `curator` (questions in, released values out) and `released` first.
`household_values` are values in households from whole shares, `interactions` the tables that noisy
interactions imply, and `noise_scale` forecasts noise.
"""
