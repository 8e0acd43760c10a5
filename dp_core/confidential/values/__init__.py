"""Single values of the file, however it stores them: as canonical texts, and as typed values.

Imports `schema` and below. Read `stored_texts` (the text of a stored value, and identifiers of
persons), then `raw_values` (texts and stored values as levels, numbers and dates) with
`parsed_texts` and `short_decimals` (numbers that were stored in 32 bits).
"""
