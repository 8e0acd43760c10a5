"""Privately chosen bins and levels: the questions to the data, and the resulting cuts.

Read `questions` first.
"""
