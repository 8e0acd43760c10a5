"""A release in memory: its plan without a spec file, and its sets as tables.

`dp_core.plan.procedure` makes the release between the two. It takes counts from a counter, so
nothing here touches a record. `stated_plan` reads the keys of a spec from plain values, and
`drawn_sets` draws and decodes. `dp_core.plan.trial` plans for data without a schema.
"""
