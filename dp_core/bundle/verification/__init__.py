"""Checks of a bundle from its own files; nothing that its statement claims is trusted.

Read `verify` first: it calls the checks in turn. `claims` reads a statement into types.
"""
