"""The science of a release, independent of run folders, databases and orchestrators.

For whoever received a release, in a notebook (`docs/notebook.md`):

>>> import dp_core as dp
>>> bundle = dp.read_bundle("first")
>>> bundle.query("share by sex").determined
True

The names of `__all__` are the public Python API. They are imported when they are first used, so
that `import dp_core` is quick.

`kernel` codes and counts records, turns exact counts into noisy values, and charges for each.
`schema` holds what is public about a file. `confidential` holds rows and exact counts. `methods`,
`plan`, `bundle` and `analysis` are beyond the wall: they see noisy values only. `text`, `metrics`
and `inference` are shared tools. `lab` compares methods and evaluates sets. `audit` checks the
charges on generated files, and `public_data` makes releases of public frames in memory. A room
imports only the rooms below it; `pyproject.toml` has the order.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dp_core.analysis.notebook.open_bundle import OpenBundle as OpenBundle
    from dp_core.analysis.notebook.open_bundle import read_bundle as read_bundle
    from dp_core.analysis.notebook.schemas import SchemaDraft as SchemaDraft
    from dp_core.analysis.notebook.schemas import read_schema as read_schema
    from dp_core.analysis.planned.plan_page import PlanPage as PlanPage
    from dp_core.analysis.query.query_answer import QueryAnswer as QueryAnswer
    from dp_core.analysis.regression.regression_answer import RegressionAnswer as RegressionAnswer
    from dp_core.bundle.verification.verify import Verification as Verification
    from dp_core.errors import BadInput as BadInput
    from dp_core.errors import ReleaseError as ReleaseError
    from dp_core.public_data.memory_release import MemoryRelease as MemoryRelease
    from dp_core.public_data.public_release import release as release
    from dp_core.public_data.schema_drafts import draft_schema as draft_schema
    from dp_core.schema.definition import Schema as Schema

_HOMES = {
    "BadInput": "dp_core.errors",
    "MemoryRelease": "dp_core.public_data.memory_release",
    "OpenBundle": "dp_core.analysis.notebook.open_bundle",
    "PlanPage": "dp_core.analysis.planned.plan_page",
    "QueryAnswer": "dp_core.analysis.query.query_answer",
    "RegressionAnswer": "dp_core.analysis.regression.regression_answer",
    "ReleaseError": "dp_core.errors",
    "Schema": "dp_core.schema.definition",
    "SchemaDraft": "dp_core.analysis.notebook.schemas",
    "Verification": "dp_core.bundle.verification.verify",
    "draft_schema": "dp_core.public_data.schema_drafts",
    "read_bundle": "dp_core.analysis.notebook.open_bundle",
    "read_schema": "dp_core.analysis.notebook.schemas",
    "release": "dp_core.public_data.public_release",
}
"""Module of each name of the public API; a test compares it with the imports above."""

__all__ = [
    "BadInput",
    "MemoryRelease",
    "OpenBundle",
    "PlanPage",
    "QueryAnswer",
    "RegressionAnswer",
    "ReleaseError",
    "Schema",
    "SchemaDraft",
    "Verification",
    "draft_schema",
    "read_bundle",
    "read_schema",
    "release",
]

if not TYPE_CHECKING:  # a type checker would accept every name

    def __getattr__(name: str) -> object:
        """Return a name of the public API; import its module first (PEP 562)."""
        if name not in _HOMES:
            raise AttributeError(f"module 'dp_core' has no attribute {name!r}")
        from importlib import import_module

        globals()[name] = found = getattr(import_module(_HOMES[name]), name)
        return found

    def __dir__() -> list[str]:
        """Return the names of the public API, besides what is imported."""
        return sorted({*globals(), *__all__})
