"""`release.json` and its copies: the guarantee, the spending, the decision and the citation.

Read `release_json` first.
"""
