"""The records of a panel, one for each person, from rows of persons in waves.

Read `person_records` first (how rows become records, and the privacy of it), then `panel_source`
(the same as a source, so that everything after it reads records).
"""
