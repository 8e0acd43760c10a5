"""Draws of the file's tables for posterior sets, and raking of survey weights.

Read `posterior.posterior_tables` first.
"""
