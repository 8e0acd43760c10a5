"""Every figure and table of the papers: a register, and experiments that go on where they stopped.

`python -m benchmarks.papers.figures list` says what there is, `run` runs it in cells of a minute or
less that are stored one by one, `show` draws and prints what is stored.
"""
