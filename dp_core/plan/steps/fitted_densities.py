"""The densities of values within bins, fitted to what a release measured."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from dp_core.methods.bin_density.fitting import with_densities
from dp_core.plan.plan import Plan
from dp_core.wall.released import Released


def with_fitted_densities(plan: Plan, released: Sequence[Released]) -> Plan:
    """Return the plan with densities within its public bins; its hash is unchanged.

    Args:
        plan: Plan of the release, with the privately chosen bins and levels.
        released: Everything that was measured, of all sets. Only tables matter, so that results of
            declared analyses may be among them or not.
    """
    schema = with_densities(plan.spec.schema, released)
    if schema is plan.spec.schema:
        return plan
    return dataclasses.replace(plan, spec=dataclasses.replace(plan.spec, schema=schema))
