"""A panel: the same persons answer in several waves, and one record has all waves of a person.

`panel_waves` says which column of a record belongs to which wave. `dp_core.schema.reading` makes
the schema of records from what a panel's schema states, and `dp_core.confidential.panel` makes the
records from the rows of a file.
"""
