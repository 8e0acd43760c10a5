"""Codebooks of other programs as drafts of a schema.

Read `codebook` first: what any codebook says about a column. `codebook_file` finds the form of a
file and calls its reader: `frictionless`, `ddi` or `codebook_table`.
`codebook_draft` writes the draft. Imports `schema`
and below; reads no data.
"""
