"""What public records tell about a file of which noisy tables were measured.

`public_prior` holds the records, of an earlier release or of a public file, in the codes of the
present schema. `pair_predictions` turns them into a prediction of the dependence of each pair of
columns, with this release's own one-way tables. How far a prediction is followed is decided by
`replicates.posterior.pair_prior`, from this release's noisy tables. All of it is post-processing:
arrays in, arrays out, and no handle to confidential data. May import what `methods` may.
"""
