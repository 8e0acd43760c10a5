"""Random draws from exact distributions, by the operating system's random bits. None takes a seed.

Only the curator imports this folder. Read in this order: `system_randomness` (the bits),
`exact_bernoulli` (events of probability exp(-x)), `exact_samplers` (noise and choices of a given
scale), `granted_noise` (the same for a grant), then the mechanisms that do more than add noise.
"""
