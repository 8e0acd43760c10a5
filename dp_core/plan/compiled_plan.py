"""Compiles a plan to the document that the kernel reads, and whose hash the ledger reserves."""

from __future__ import annotations

from typing import Any

from dp_core.plan.plan import Plan
from dp_core.schema.compiled import kernel_document


def compiled_document(plan: Plan) -> dict[str, Any]:
    """Return the document of a release; see `dp_core.kernel.document`."""
    spec = plan.spec
    return kernel_document(
        spec.schema,
        release=spec.release,
        neighbours=spec.privacy.neighbours,
        currency=plan.currency.to_json(),
        costs={stage: str(cost) for stage, cost in plan.costs.items()},
        extensions=plan.extensions,
    )
