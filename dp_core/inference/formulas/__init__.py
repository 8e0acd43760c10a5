"""The language of regression formulas: a closed grammar, so that no formula is a program.

Read `formula` first; `grammar` and `factors` serve it.
"""
