"""What a release does with its data, as only the process that may see them records it.

`charging_writer` writes attempts and verdicts, the input, charges, redraws and commits;
`ledger_session` charges, draws, stores and commits with it. An import contract in pyproject.toml
keeps this room from Prefect's process, which so can neither judge the data nor pay for a result.
"""
