"""What is public about the confidential file: columns, bins, levels, rules and who is protected.

Imports `text` and `kernel`. Read `definition` first, then `column_types` (all that differs between
types of columns). `reading` parses `schema.yaml`; `decoding` turns synthetic codes
into labels and numbers; `bin_values` is the distribution of values within bins, for those who draw
or average values themselves; `grid` and `variables` represent numeric columns for parametric
methods.
"""
