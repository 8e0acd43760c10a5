"""The answers of the commands: frozen dataclasses that become JSON or a terminal view.

Read `answer` first: the fields of an answer are the keys of `--json`. `release_answers` has the
answers of `run`, `status` and `look`. The views are in `flows.cli.terminal`.
"""
