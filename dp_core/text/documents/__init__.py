"""Documents that people write: strict YAML and the values in it.

Imports `errors` and `text` only. Read `strict_yaml` and `node` first: they turn a file into values
with their place in the file, and `faults` collects the errors in them. `typed_text` reads single
values.
"""
