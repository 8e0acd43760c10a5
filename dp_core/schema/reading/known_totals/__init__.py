"""Reads totals that are published elsewhere: of weights (`calibrate`) and of records (`totals`)."""
