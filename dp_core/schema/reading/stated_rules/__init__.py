"""Reads the rules of a schema: `impossible`, rules between columns, and rules that count members.

`rule_reader` reads `impossible` and rules that count members; `column_rule_reader` and the modules
of `forms` read the other texts under `rules`; `rule_conditions` has the conditions that they share.
"""
