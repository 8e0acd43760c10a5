"""Methods that release statistics or records instead of tables. One method, one file.

Read `base` first, then `stages`, which puts them in the places of a selection and a reconstruction.
"""
