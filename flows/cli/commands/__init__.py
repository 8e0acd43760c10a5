"""The commands, one file per command or group; `flows.cli.main` finds and imports each file.

A command parses its options, calls `actions` or `answers`, and returns an answer. The decorator
`answering` prints it. Heavy packages are imported inside the commands that need them.
"""
