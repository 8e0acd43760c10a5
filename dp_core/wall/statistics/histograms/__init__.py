"""Questions about the histogram of one numeric column, for methods that compress it.

`cosines` has the coefficients of its cosine transform and the norm of those that are left out;
`cuts` has the distance from a histogram with fewer bins.
"""
