"""Predictions from public records about a file of which noisy tables were measured.

`public_prior` holds the records of an earlier release or of a public file, in the codes of the
release's schema. `pair_predictions` uses them, and this release's own one-way tables, to predict
the dependence of each pair of columns. `replicates.posterior.pair_prior` learns from this release's
noisy tables how far to follow the predictions. All of it is post-processing: arrays in, arrays out,
and no access to confidential data. May import what `methods` may.
"""
