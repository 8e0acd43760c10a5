"""`run` and `resume` in Python: the real pipeline, as the command line does it.

`running` is what `from flows import run, resume` imports; read it first. Each call is a process of
its own (`child`), so that a notebook's memory never holds rows or exact counts, its event loop is
left alone, and an interruption is that of the command.
Imports `cli`; nothing imports this room but the public Python API.
"""
