"""What an agency adds to the ledger's rules: a policy can only refuse, never allow.

Imports the kernel and `accounts`. `all_policies` lists them; each of the others is one: plans that
a person must approve (`approved_plans`), approval before publication (`approval`), allowances per
period (`budget_periods`, `account_balance`), and limits of refused attempts and of tried schemas.
`stage_grant` is what one stage may charge before it looks at the data.
"""
