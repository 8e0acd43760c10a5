"""Reads `schema.yaml` into a `Schema`; each fault is one sentence with its place.

Read `schema_file` first: it calls one reader for each part of a schema.
"""
