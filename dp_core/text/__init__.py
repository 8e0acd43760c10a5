"""Text that people write, and text that is shown to them.

Imports `errors` only. `documents` reads files that people write, strict YAML above all, and
collects the faults in them. `pages` shows an answer in a terminal, a notebook or HTML, or gives it
as JSON. Beside them, `names` says which names are allowed.
"""
