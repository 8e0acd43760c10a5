"""The methods of the papers: what to measure, and how to make records from noisy tables.

Imports `kernel` (a method receives a curator) but neither `confidential` nor the noise. `selection`
says which tables to measure; `reconstruction` fits a model to them; `parametric` holds methods that
do both; `replicates` makes sets whose spread reflects the noise; `private_domain` chooses bins and
levels; `bin_density` fits the density of values within public bins. `registry` finds a method by
the name of its file. `averaging`, `mixture_weights` and `option_ranges` serve several families.
"""
