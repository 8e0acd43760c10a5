"""How often, and with how many schemas, a family of accounts may ask whether its data fit.

Whether data fit is an exact answer outside epsilon. `refused_attempts` counts and limits the
attempts, and `tried_schemas` the different schemas of a period.
"""
