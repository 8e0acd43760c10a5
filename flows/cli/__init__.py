"""The `dp-release` command.

`main` lists the commands. A file per group of commands parses what was typed; `actions` does it;
`flows.answers` makes the answer; `terminal` prints it.
"""
