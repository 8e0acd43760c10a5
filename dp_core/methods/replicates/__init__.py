"""How the m sets are made so that their spread carries the noise, and how survey weights are raked.

Read `noise_aware` first.
"""
