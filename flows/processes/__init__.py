"""Processes of our own that hold the data in place of their callers: a notebook, a question desk.

`child_process` starts no process itself. It has what the callers and the processes share.
"""
