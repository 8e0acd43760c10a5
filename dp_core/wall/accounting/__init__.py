"""What an event costs, and how costs add up.

Read `events` (what was done to the data), `sensitivity`, `currency` (one release) and `composition`
(one account). `guarantee` gives the published guarantee.
"""
