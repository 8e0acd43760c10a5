"""`release.json` and what repeats it: the guarantee, the spending, the decision and the citation.

Read `release_json` first.
"""
