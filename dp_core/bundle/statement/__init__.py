"""`release.json` and the files that repeat it: the guarantee, the spending, the decision and the citation.

Read `release_json` first.
"""
