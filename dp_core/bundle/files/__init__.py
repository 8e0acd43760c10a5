"""The data files of a bundle, the synthetic sets and the noisy tables, and their codebook.

Read `marginals_file` first.
"""
