"""Values of numeric columns on public grids whose steps grow with the value.

A grid of equal steps rounds the turnover of a small firm away if the range is a billion. Here a
step is small near 0 and doubles each time the distance from 0 doubles, so the rounding error is
small relative to the value. `skewed_grid` makes such a grid and says which value each of its
positions stands for.
"""
