"""Differentially private synthetic microdata: the science, usable from a notebook."""
