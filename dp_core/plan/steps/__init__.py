"""Parts of `dp_core.plan.procedure` that have files of their own.

`posterior_draws` draws a release's tables. `declared_measurement` asks for the sums of declared
analyses, and `statistics_measurement` for those of means, totals and quantiles; they take a
curator, as the procedure does.
"""
