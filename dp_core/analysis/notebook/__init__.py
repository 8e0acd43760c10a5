"""A bundle in Python, for whoever received a release: its sets, tables, answers and statement.

`open_bundle` is the object that `dp_core.read_bundle` returns, with its statement and answers; read
it first. `synthetic_sets` and `noisy_tables` are its sets and tables as pandas frames. `schemas`
reads a schema. The answers are those of the commands: they are computed in
`dp_core.analysis.query`, `dp_core.analysis.regression` and `dp_core.bundle.verification`. This room
may import these and the rooms below, never `confidential` or the noise.
"""
