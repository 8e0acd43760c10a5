"""Text that people write, and text that is shown to them; bytes that the program stores.

Imports `errors` only. `documents` reads files that people write, strict YAML above all, and
collects the faults in them. `pages` shows an answer in a terminal, a notebook or HTML, or gives it
as JSON. Beside them, `canonical` gives equal values equal bytes, `exact` reads exact numbers, and
`names` says which names are allowed.
"""
