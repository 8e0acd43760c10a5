"""The language of regression formulas: a closed grammar that never runs as code.

Read `formula` first; `grammar` and `factors` serve it.
"""
