"""Every question that the curator answers: whole numbers with proven sensitivities.

Read `statistic` first, then `vetted`, the closed list. A method asks for a statistic on the list
and cannot bring its own. A new statistic needs a proof here and an audit in `tests/distributions`.
"""
