"""Anyone's check of a bundle, from its files alone. Nothing that a statement claims is trusted.

Read `verify` first: it calls one check after the other. `claims` reads a statement into types.
"""
