"""Parts of `dp_core.plan.procedure` that have files of their own.

`seeded` makes the random generators of post-processing. `fitted_densities` fits the densities of
values within bins. `posterior_draws` draws a release's tables. `declared_measurement` asks for the
sums of declared analyses; it takes a curator, as the procedure does.
"""
