"""Forecasts of the time and memory that a release takes, and the time left while it runs.

Pure functions of a plan and of a machine's speed; nothing here reads data or knows how long an
earlier release of confidential data took. Read `stage_work` first, then `time_forecast`.
`memory_bound` bounds the memory from the same numbers. `machine_speed` measures a machine, and
`stage_pace` follows a running stage.
"""
