"""Two confidential tables, households and persons, as pair rows.

Read `key_links` first (who the members of a household are), then `linked_rows` (codes and rules)
and `linked_source` (both tables, batch by batch).
"""
