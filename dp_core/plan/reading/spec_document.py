"""The resolved spec as plain JSON values: all defaults filled in, all numbers exact.

The plan's hash covers it, and the bundle contains it.
"""

from __future__ import annotations

from dp_core.methods.parametric.adapters import Modelling
from dp_core.plan.method_options import plain_options
from dp_core.plan.release_spec import PUBLISH, ReleaseSpec
from dp_core.schema.privacy import Stage
from dp_core.schema.reading.schema_document import schema_hash

VERSION = 1
"""Version of the format of spec files."""


def spec_document(spec: ReleaseSpec, selector: str, reconstructor: str) -> dict[str, object]:
    """Return the resolved spec under its own keys, without paths of this machine."""

    def share(stage: Stage) -> dict[str, object]:
        return {"share": str(spec.shares[stage])}

    # Published: it shows that the formulas were fixed before anyone looked at the data.
    formulas = {"formulas": list(spec.formulas)} if spec.formulas else {}
    checks: dict[str, object] = {}
    if spec.checks:
        checks["tables"] = [list(table) for table in spec.checks]
    if spec.thresholds:
        checks["thresholds"] = [threshold.to_json() for threshold in spec.thresholds]
    wanted = spec.selector.workload
    before: dict[str, object] = {}
    after: dict[str, object] = {}
    parametric: dict[str, object] = {}
    if isinstance(spec.reconstructor, Modelling):
        method, positions = spec.reconstructor.method, spec.reconstructor.positions
        parametric = {"method": selector, "positions": positions, **plain_options(method)}
    else:
        options = plain_options(spec.selector)
        before = {"select": {"method": selector, **share("select"), **options}}
        after = {"reconstruct": {"method": reconstructor, **plain_options(spec.reconstructor)}}

    return {
        "version": VERSION,
        "release": spec.release,
        "data": spec.data if isinstance(spec.data, str) else spec.data.document(),
        "schema": {"title": spec.schema.title, "sha256": schema_hash(spec.schema)},
        "account": spec.account,
        **({"measurements": spec.measurements.document()} if spec.measurements else {}),
        **({"revises": spec.revises} if spec.revises else {}),
        **({"prior": dict(spec.prior.document)} if spec.prior else {}),
        "privacy": {
            "epsilon": str(spec.privacy.epsilon),
            "delta": str(spec.privacy.delta),
            "neighbours": spec.privacy.neighbours,
            "unit": spec.privacy.unit,
            **spec.privacy.stated_limit,
        },
        "method": spec.method,
        **({"tables": [table.to_json() for table in wanted]} if wanted else {}),
        **({"analyses": _analyses(spec)} if spec.declared else {}),
        **({"domain": share("domain")} if "domain" in spec.shares else {}),
        "total": share("total"),
        "one_way": share("one_way"),
        **before,
        "measure": {**share("measure"), "noise": spec.noise},
        **after,
        "synthesize": {
            **parametric,
            "sets": spec.sets,
            "rows": "same" if spec.rows is None else spec.rows,
            "mode": spec.mode,
            "seed": spec.seed,
        },
        "checks": {**share("checks"), **checks, **formulas},
        **({"publish": spec.publish} if spec.publish != PUBLISH[0] else {}),
    }


def _analyses(spec: ReleaseSpec) -> dict[str, object]:
    return {
        "formulas": list(spec.declared),
        "share": str(spec.shares["analyses"]),
    }
