"""The budget of files with a hierarchy: members in households, and areas within areas.

Public side of the wall. `linked_kinds` weighs the kinds of pairs of linked tables; `nested_areas`
states what a table of small areas tells about larger ones.
"""
