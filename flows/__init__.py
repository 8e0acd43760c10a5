"""The five Prefect flows, one file each: release, scheduled, compare, nightly and sweep.

Around them: `cli` (commands), `answers` (their results), `releases` (shared by the flows),
`comparison`, `monitoring` (log, events, metrics, artifacts) and `engine` (Prefect's server and
settings). `flows` imports `tasks` and `dp_core`; nothing imports `flows`.
"""
