"""Measures that releases show and checks use, as pure functions of arrays.

Imports `kernel` only. One file per measure. `noise_size` has the margin of error of a noisy cell;
`marginal_error` compares tables.
"""
