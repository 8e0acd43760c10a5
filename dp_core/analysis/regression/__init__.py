"""Regressions on the m sets of a release: designs, and fits by one solver (`fitting`).

Read `analysis` first. `regression_inference` carries out what is asked, and `regression_answer` is
what the command and the library return.
"""
