"""The answers of the commands: frozen dataclasses that become JSON or a terminal view.

Read `answer` first. Of each answer the fields are the keys of `--json`; `release_answers` has those
of `status`. What a person reads instead is made in `flows.cli.terminal`.
"""
