"""Scores by which others judge synthetic files: NIST's SDNist report, and error by subgroup.

Pure functions of two datasets of one domain, the real file and a synthetic one. They know no files,
and say nothing about who may see their result: compared with a confidential file, it is
confidential. Start with `file_scores`, which computes all of them; each other file has one score
and its definition. Imports `kernel`, `metrics` and `lab.measures` only.
"""
