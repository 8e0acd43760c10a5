"""Reads `release.yaml` into a `ReleaseSpec`; every mistake is one sentence with its place.

Read `spec_file` first: it calls one reader for each part of a spec.
"""
