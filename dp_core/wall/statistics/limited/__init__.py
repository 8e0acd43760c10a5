"""Sums of numbers by groups of records, each clipped to the public limits of its group."""
