"""Histograms of single columns: what the methods that release one per column share.

Read `column_histograms` first: the base class of these methods, and the model of independent
columns that they fit. `cut_columns` is for the methods that choose the cuts of their bins.
"""
