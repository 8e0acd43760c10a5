"""Noise-aware sets, whose spread reflects the noise, and raking of survey weights.

Read `noise_aware` first.
"""
