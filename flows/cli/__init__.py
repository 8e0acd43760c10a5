"""The `dp-release` command.

`main` lists the files of `commands`. A command parses its options; `actions` does the work;
`flows.answers` builds the answer; `command_parts` prints it, as a page or as JSON.
"""
