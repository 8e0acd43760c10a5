"""The answers of the commands: frozen dataclasses that become JSON or a terminal view.

`dp_core.text.pages.answer` has their base class: the fields of an answer are the keys of `--json`.
`release_answers` has the answers of `run`, `status` and `look`. The views are in
`flows.cli.terminal`. The answers of `query`, `infer` and `verify` are in `dp_core`, since the
library returns them too.
"""
