"""What a person who may see a data file wants to know about it before a release is planned.

`schema check` and `schema draft --public-data` use this room, and no release imports it: a test
keeps it out of the trusted core. What it returns may hold values and counts of the file, so it is
for that person's terminal only. Imports `confidential`, `schema` and below. Read `findings` first,
then `file_check`, which makes one pass over the rows; `column_tally` counts, and
`value_findings`, `row_findings` and `hints` say what the counts mean. `header_check` and
`file_content` judge a file before its rows are read. `public_profile` describes a
public file for a draft.
"""
