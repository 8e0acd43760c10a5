"""Methods that release statistics or records instead of tables. One file per method.

Read `synthesizer` first (the base classes), then `drawn_records`, whose adapters let the pipeline
run a parametric method as a selection and a reconstruction. `regressions` serves two methods.
"""
