"""The forecast of the error of a release's sets, before any data are read.

`planned_error` gives the error that known noisy tables leave in a typical file. `theory` takes it,
or the forecast of `auto`, for each selection method. `calibration` has what theory leaves out, as
measured by `benchmarks/promises.py`, and `error_forecast` combines both. `one_step` decides by
forecasts whether `auto` looks at the data before it measures. Imports the plan.
"""
