"""The types of columns, a module each: all that differs between types hangs on one object.

Imports `text` and the edges of bins. Read `column_type` first: what the other rooms ask of a type.
A module that defines `TYPE` is a type; `registry` finds it.
"""
