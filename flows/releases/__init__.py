"""Shared by the flows: whether a release may begin, past runs, and specs from templates.

Read `start_check` first.
"""
