"""The stages of a release as Prefect tasks, one file each.

Read `stage_task` first: it defines what all stages share. The argument of `@stage` is the stage's
public name, so `validate` is in `validate_schema`. `measure_marginals` holds the stages `basics`
and `measure`. `publication_approval` is not a stage: it decides, between `check` and `publish`,
whether the release is published.
"""
