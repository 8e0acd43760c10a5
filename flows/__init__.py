"""The five Prefect flows, one file each: release, scheduled, compare, nightly and sweep.

The folders beside them: `cli` (commands), `answers` (the commands' results), `releases` (what the
flows share), `comparison` (of methods), `monitoring` (log, events, metrics, artifacts) and `engine`
(Prefect's server and settings). `flows` imports `tasks` and `dp_core`; nothing imports `flows`.
"""
