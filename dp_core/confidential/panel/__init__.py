"""The records of a panel, one for each person, made from a row for each person and wave.

Read `person_records` first (how rows become records, and why this is private), then `panel_source`
(a source of these records, which everything after it reads like any other source).
"""
