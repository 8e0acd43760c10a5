"""How an answer is shown: as JSON to a program, as text or HTML to a person.

Imports `errors` only. Read `answer` first: the one type of answers, with values for programs and a
page for people. Then `page` (the blocks of a page), `page_text` and `page_html`, which print any
page, and `printed`, the base class of what prints itself. `number_texts` has the texts of numbers.
"""
