"""Reads published totals: of survey weights (`calibrate`) and of records (`totals`)."""
