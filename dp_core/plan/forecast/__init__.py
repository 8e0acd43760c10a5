"""What `plan` expects of a release: the error of its sets, its time and its memory.

Imports the rest of `plan` and below. Read `error_forecast` and `resource_forecast`, each with one
function that `plan` calls; `error_calibration` has the constants that a benchmark prints.
`one_step` decides by such forecasts before anything is paid. `stage_pace` follows
the running stages with the forecast times, adjusted to the speed of the machine.
"""
