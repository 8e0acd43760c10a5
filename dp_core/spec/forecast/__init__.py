"""The error that a plan promises, before any data are read.

`planned_error` says what known noisy tables leave in a typical file. `theory` takes it, or the
forecast of `auto`, for each selection method. `calibration` has what theory leaves out, as measured
by `benchmarks/promises.py`, and `error_forecast` puts both together. Imports the plan.
"""
