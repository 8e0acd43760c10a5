"""Reads the rules of a schema: impossible combinations, rules between columns, members of households.

`rule_reader` reads `impossible`; `column_rule_reader` and `member_rule_reader` read the texts under
`rules`; `rule_conditions` reads the conditions that they share.
"""
