"""Mechanisms: of each, one file with what a use of it costs, why, and how it draws.

Read `event` first, then `additive_noise` (Laplace and Gaussian noise) and `private_choice` (the
largest noisy score). `event_reading` finds a mechanism by its name in a receipt. Mechanisms that
one historical method needs lie in `dp_core.kernel.extensions`.
"""
