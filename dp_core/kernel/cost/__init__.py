"""The privacy cost of events, and how costs add up.

Read `events` (each use of a mechanism), `sensitivity`, `currency` (the sum within one release) and
`composition` (the sum over the releases of an account), in this order. `guarantee` computes the
published guarantee.
"""
