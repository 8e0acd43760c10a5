"""What the library does with data that anybody may see: releases in memory, and drafts of schemas.

A release in memory joins the two sides of the wall for public data, tests and teaching: no ledger,
no receipts, nothing protected. No other room imports this one. `public_release` is
`dp_core.release`; read it first, then `memory_release`, which it returns. `frame_codes` opens
frames as sources and returns their codes, or says everything that does not fit. `schema_drafts` is
`dp_core.draft_schema`, which reads values only if the data are said to be public. May import all
other rooms but `audit`.
"""
