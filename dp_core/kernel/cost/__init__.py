"""How the costs of events add up, in a release and in an account.

Read `sensitivity`, `currency` (the sum within one release) and `composition` (the sum over the
releases of an account), in this order.
"""
