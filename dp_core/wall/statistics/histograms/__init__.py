"""Questions about the histogram of one numeric column: how to compress it, and what is kept.

`cosines` has the coefficients of its cosine transform and the size of those left out, `cuts` the
distance from a histogram with fewer bins.
"""
