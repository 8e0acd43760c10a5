"""The stages of a release: one Prefect task per file, with the stage's name.

Read `stage_task` first: it has what every stage shares.
"""
