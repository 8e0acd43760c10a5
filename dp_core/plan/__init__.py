"""The release spec, its presets, its plan, and releases made in memory.

Imports `methods` and below. Read `release_spec`, then `plan` with `currency_choice` (what a release
will cost), `error_forecast` and `resource_forecast` (how exact it will be, and what it takes), then
`procedure` (what its stages do). `reading` parses `release.yaml`; `desk` has the terms of a desk.
"""
