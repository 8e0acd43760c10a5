"""Measures of error, as pure functions of arrays: distances, and the expected size of noise.

Imports `tables` only. One file per measure. `noise_size` has the margin of error of a noisy cell;
the others compare tables, records or estimates. `resource_usage` is time and memory.
"""
