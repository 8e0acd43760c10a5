"""Privately chosen bins and levels: the questions about the data, and the resulting cuts.

Read `questions` first.
"""
