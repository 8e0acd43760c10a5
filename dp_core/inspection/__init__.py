"""What a person who may see a data file wants to know about it before a release is planned.

`schema check`, `schema draft --public-data` and releases of public frames use this room, and no
release of confidential data imports it: a test keeps it out of the trusted core. What it returns
may hold values and counts of the file, so it is for that person's terminal only. Imports
`confidential`, `schema` and below. Read `findings` first, then `given_data` (files and frames as
data to check), `data_check` (data of any schema) and `file_check`, which makes one pass over the
rows; `column_tally` counts, and `value_findings`, `row_findings` and `hints` say what the counts
mean. `header_check` and `file_content` judge a file before its rows are read. `public_profile`
describes public data for a draft.
"""
