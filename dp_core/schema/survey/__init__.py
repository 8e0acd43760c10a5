"""The sample design of a survey: strata, clusters and replicates, as the schema states them.

Imports the schema's definition and below; the definition itself imports only `survey_design`, the
plain record. Read `survey_design`, then `primary_units` (which clusters lie in which stratum,
and which half samples are balanced). Variances are in `dp_core.inference.design_variance`.
"""
