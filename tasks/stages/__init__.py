"""The stages of a release, one file each, as tasks of Prefect.

Read `stage_task` first: it has what every stage shares. `@stage("...")` has the name that people
read: `validate` is in `validate_schema`. `measure_marginals` holds `basics` and `measure`.
`publication_approval` is no stage: it decides between `check` and `publish`.
"""
