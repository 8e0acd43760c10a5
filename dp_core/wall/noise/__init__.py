"""The random draws, by OpenDP's exact samplers. Each takes a grant; none takes a seed.

Only the curator imports this room. `opendp_mechanisms` is the only file that calls OpenDP.
"""
