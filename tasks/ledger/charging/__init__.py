"""What a release does with its data, as only the confidential process records it.

`charging_writer` writes attempts and verdicts, the input, charges, redraws and commits;
`ledger_session` charges, draws, stores and commits with it. An import contract in pyproject.toml
keeps this room from Prefect's process, so that it can record neither a verdict nor a charge.
"""
