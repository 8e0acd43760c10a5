"""Lines that every draft of a schema has, with a codebook or without."""

from __future__ import annotations

UNIT_LINES = """\
unit: row                # one row is one person; or {column: person_id, max_rows: 4}
# rows_about: 20000      # rows, only if public; `plan` then states TVD, expected error, memory
"""
"""Lines of every draft about the unit of privacy and the number of rows."""
LINKED_UNIT_LINES = """\
unit: {{table: {table}, max_members: }}  # most members of a household, from public knowledge
# rows_about: 20000      # households, only if public; `plan` then states TVD and expected error
"""
"""The same for linked tables."""
RULE_LINES = """\
# impossible:            # combinations that cannot occur, by a public rule
#   - {age: "<15", marital: [married, widowed]}
# rules:                 # rules between columns, which hold in every synthetic row
#   - start_date <= end_date
"""
"""Last lines of every draft."""
