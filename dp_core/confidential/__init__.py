"""Everything that holds rows or exact counts of the confidential file.

Imports `schema` and below, never `wall`: the curator takes a counter by its protocol
(`dp_core.tables.marginal.Counter`), and `tasks` joins the two. Nothing beyond the wall may import
this room. Read `source` (files to record batches) and `frame_source` (the same of a frame in
memory), `values` and `encoding` (values to codes), then `coding` and `code_store`.
"""
