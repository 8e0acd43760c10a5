"""Documents that people write and bytes that the program stores: strict YAML, values, names.

Imports only `errors`. Read `strict_yaml` and `node` first: they turn a file into values with their
place in the file, and `faults` collects the errors in them. `typed_text` reads single values;
`canonical` gives equal values equal bytes.
"""
