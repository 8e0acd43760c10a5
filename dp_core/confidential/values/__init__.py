"""Reads single values of a file, in whatever type it stores them: as texts and as typed values.

Imports `schema` and below. Read `stored_texts` first (the text of a stored value, and identifiers
of persons). Then read `raw_values` (levels, numbers and dates from texts and stored values), which
uses what the column's type says of its texts (`dp_core.schema.column_types`). `edge_grid` finds the
bin of a number.
"""
