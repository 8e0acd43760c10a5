"""Values of a file become codes, by a public rule and the value alone.

How the file stores a column does not matter, nor do other rows. Read `coding_rule` (the rule of a
column), `raw_values` (stored values to values of the column) and `encoder` (values to codes).
`raw_rows` reads columns of a file by their names. `stored_texts` and `parsed_texts` have the texts
of values, `edge_grid` finds bins.
"""
