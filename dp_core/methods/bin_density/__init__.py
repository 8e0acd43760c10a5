"""The density of values within public bins, fitted to noisy counts. Post-processing.

A set of records has codes; the values within a bin are drawn. Uniform values are wrong where bins
are wide: in a top bin from 150,000 to 2,000,000 almost all incomes are near its lower end. So each
bin gets a density of a family with one parameter, which is estimated from the counts of
neighbouring bins (`neighbours`) and expressed as pieces (`fitting`,
`dp_core.schema.bin_pieces.BinPieces`), which a statement holds.

Read `neighbours` first, then `fitting`. Nothing here imports a method of selection,
reconstruction or parametric synthesis, except the pooled estimates of tables.
"""
