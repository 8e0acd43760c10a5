"""Parts of `dp_core.plan.procedure` that have files of their own.

`posterior_draws` draws a release's tables and asks for the sums of declared analyses,
`statistics_measurement` for those of means, totals and quantiles; they take a curator, as the
procedure does.
"""
