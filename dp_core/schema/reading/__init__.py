"""Reads `schema.yaml` into a `Schema`; each mistake is a sentence with its place in the file.

Read `schema_file` first: it calls one reader for each part of a schema.
"""
