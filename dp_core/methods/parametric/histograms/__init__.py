"""Shared parts of the methods that release one histogram per column.

Read `column_histograms` first: the base class of these methods, and the model of independent
columns that they fit. `cut_columns` is for the methods that choose the cuts of their bins.
"""
