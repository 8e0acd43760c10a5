"""Privately chosen bins and levels: the questions about the data, and the bins that follow.

Read `questions` first.
"""
