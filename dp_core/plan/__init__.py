"""The release spec, its presets, its plan, and the stages of a release as functions.

Imports `methods` and below. Read `release_spec`, then `plan` with `currency_choice` (what a release
will cost), `error_forecast` and `resource_forecast` (how exact it will be, and what it takes), then
`procedure` (what its stages do). `reading` parses `release.yaml`, and plans releases in memory.
`question_desk` has the terms of a desk and reads its file.
"""
