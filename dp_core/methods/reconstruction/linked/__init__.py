"""Sets of households with their members, drawn from the fitted tables of pair rows.

Read `household_model` first: households are drawn, then their members. `member_targets` lists the
tables that a member's values belong to, for the compiled loops of `kernels.member_moves`.
"""
