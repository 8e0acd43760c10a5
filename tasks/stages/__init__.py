"""The stages of a release, one Prefect task per file, named as the stage.

Read `stage_task` first: what every stage has in common.
"""
