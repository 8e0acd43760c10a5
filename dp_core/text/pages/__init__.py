"""How an answer is shown: as JSON to a program, as text or HTML to a person.

Imports `errors` only. Read `answer` first: the fields of an answer are the keys of its JSON. Then
`page` (the blocks of a page for people), `page_text` and `page_html`, which print a page, and
`printed`, the base class of what prints itself. `number_texts` has the texts of numbers, and
`html_template` the settings of the templates of whole pages.
"""
