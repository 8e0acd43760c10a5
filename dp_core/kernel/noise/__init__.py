"""Random draws from exact distributions, by the operating system's random bits. None takes a seed.

Only the kernel's mechanisms import this folder. Read in this order: `system_randomness` (the bits),
`exact_bernoulli` (events of probability exp(-x)) and `exact_samplers` (noise and choices of a given
scale).
"""
