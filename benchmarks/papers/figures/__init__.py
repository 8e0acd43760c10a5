"""Every figure and table of the papers: a register, and experiments that continue after a stop.

`python -m benchmarks.papers.figures list` prints the register. `run` runs the experiments in cells
(units of work of a minute or less), each stored when it ends. `show` draws and prints what is
stored.
"""
