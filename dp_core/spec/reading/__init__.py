"""Reads `release.yaml` into a `ReleaseSpec`; every mistake is one sentence with its place in the file.

Read `spec_file` first: it calls one reader for each part of a spec.
"""
