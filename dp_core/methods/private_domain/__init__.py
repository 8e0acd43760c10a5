"""Bins and levels that are chosen privately: what is asked of the file, and what follows."""
