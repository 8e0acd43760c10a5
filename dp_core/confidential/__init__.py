"""Everything that holds rows or exact counts of the confidential file.

Imports `schema` and below, and of the kernel its codes and counts: the kernel takes a counter by
its protocol (`dp_core.kernel.counting.marginal.Counter`), and `tasks` joins the two. Nothing beyond
the wall may import this room. Read `source` (files to record batches) and `frame_source` (the same
of a frame in memory), `encoding` (values to codes), then `coding` and `code_store`.
"""
