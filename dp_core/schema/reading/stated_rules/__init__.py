"""Reads the rules of a schema: impossible combinations, rules between columns and about members.

`rule_reader` reads `impossible`; `column_rule_reader` and `member_rule_reader` read the texts under
`rules`; `rule_conditions` reads the conditions that they share.
"""
