"""Reads the rules of a schema: `impossible`, rules between columns, and rules that count members.

`rule_reader` reads `impossible`; `column_rule_reader` and `member_rule_reader` read the texts under
`rules`; `rule_conditions` reads the conditions that they share.
"""
