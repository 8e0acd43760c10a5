"""Text that people write and bytes that the program writes down: strict YAML, typed values, names.

Imports nothing but `errors`. Read `strict_yaml` and `node` first: they turn a file into values that
know their place in it. `typed_text` reads single values; `canonical` writes the same bytes for the
same values everywhere.
"""
