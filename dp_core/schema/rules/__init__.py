"""Rules between columns: what they say, the codes they exclude, and values that obey them. Public.

Read `column_rules` first (a rule, and which rows break it), then `unit_bounds` (numbers, whole
numbers and dates in whole units), `excluded_boxes` (combinations of codes in which no values obey a
rule, as structural zeros; a rule without effect is refused), `feasible_values` (values within bins
that obey all rules), and then what uses them: `possible_codes` repairs synthetic codes
and values. Imports `kernel`, `errors` and the definition of a schema;
`dp_core.schema.reading` reads the rules.
"""
