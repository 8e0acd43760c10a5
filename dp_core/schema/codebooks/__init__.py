"""Codebooks of other programs as drafts of a schema.

Read `codebook` first: what any codebook says about a column. `codebook_file` finds the form of a
file and calls its reader: `frictionless`, `csvw`, `ddi_codebook`, `ddi_lifecycle`, `codebook_table`
or `plain_json`. `level_list` splits a cell that lists levels. `codebook_draft` writes the draft,
with the lines of `draft_lines`. Imports `schema` and below; reads no data.
"""
