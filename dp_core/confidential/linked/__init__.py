"""Two confidential tables, households and persons, as pair rows.

Read `key_links` first (who the members of a household are), then `linked_rows` (codes, rules, and
the pair rows of both tables) and `linked_source` (the same from files, batch by batch).
"""
