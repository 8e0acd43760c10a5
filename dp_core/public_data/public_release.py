"""A release in memory of a frame that anybody may see: `dp_core.release`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from dp_core.analysis.notebook.schemas import SchemaDraft, read_schema
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.errors import BadInput, nearest
from dp_core.kernel.counting.household_counter import HouseholdCounter
from dp_core.kernel.privacy import Neighbours
from dp_core.methods.prior import PublicPrior
from dp_core.plan.procedure import carry_out
from dp_core.plan.reading.spec_file import memory_plan
from dp_core.priors.prior_records import prior_of_frames, prior_of_release
from dp_core.public_data.frame_codes import Frames, frame_codes
from dp_core.public_data.memory_release import MemoryRelease
from dp_core.schema.definition import Schema

if TYPE_CHECKING:
    import pandas as pd

Number: TypeAlias = int | float | str | Fraction
"""A number; a float means the decimal that it is printed as, so 0.1 is exactly a tenth."""
Wanted: TypeAlias = str | Sequence[str] | Mapping[str, Any]
"""A wanted table: `"sex, age"`, `["sex", "age"]` or `{"of": ["sex", "age"], "weight": 3}`."""
Prior: TypeAlias = "pd.DataFrame | MemoryRelease | str | os.PathLike[str]"
"""Public records: a frame, a release in memory, or the folder of a published release."""
STAGES = (
    *("domain", "total", "one_way", "select"),
    *("measure", "reconstruct", "synthesize"),
)
"""Sections of a spec that `stages` may have."""


def release(
    frame: Frames,
    schema: Schema | SchemaDraft | str | os.PathLike[str] | Mapping[str, object],
    *,
    epsilon: Number = 1,
    delta: Number = 1e-9,
    neighbours: Neighbours = "add-remove",
    method: str = "auto",
    sets: int | None = None,
    rows: int | None = None,
    mode: Literal["posterior", "noise-aware", "shared", "split"] | None = None,
    seed: int = 1,
    tables: Iterable[Wanted] = (),
    analyses: str | Iterable[str] | Mapping[str, Any] = (),
    prior: Prior | None = None,
    stages: Mapping[str, Mapping[str, Any]] | None = None,
) -> MemoryRelease:
    """Return a release of public data, made in memory, for tests and teaching.

    It has the noise, the methods and the answers of a real release. But no ledger pays for it, and
    nothing limits how often it is made, so **it protects nobody**: never use it on confidential
    data. `flows.run` and `dp-release run` make real releases. All keywords mean what the keys of a
    spec mean (`docs/spec.md`), with the same defaults.

    Args:
        frame: The public data, one row for each record. Numbers, booleans, texts, dates and
            categories may have any pandas type; NaN, None and NaT are missing values. Of linked
            tables, both frames by the names of their tables, such as `{"households": homes,
            "persons": people}`.
        schema: A schema, or anything that `read_schema` accepts.
        epsilon: Epsilon by which the noise is calibrated; 1 by default.
        delta: Delta by which the noise is calibrated; 1e-9 by default, 0 for pure noise.
        neighbours: Neighbouring relation: `add-remove` (the default) or `replace-one`.
        method: Name of the preset; `auto` by default.
        sets: Number of synthetic sets, 0 for noisy tables only; by default as in a spec, mostly 5.
        rows: Rows of each set; None (the default) for the noisy number of records.
        mode: How the sets are made; defaults to `posterior` if the method supports it.
        seed: Seed for everything but the noise; defaults to 1. The noise has no seed: two calls
            never give the same release.
        tables: Tables to make more accurate, such as `["sex, age"]`; none by default.
        analyses: Formulas of regressions, and statistics such as `mean of income by sex`, that are
            measured directly; or as in a spec a dictionary with their part of the budget, such as
            `{"formulas": ["income ~ age"], "share": 0.4}`; none by default.
        prior: Public records that predict how columns depend: the folder of a published release, a
            release in memory, or a public frame; None (the default) for no prior.
        stages: Options of stages by their names, such as `{"select": {"share": 0.2}}`.

    Raises:
        BadInput: if the frame does not fit the schema, naming all that does not fit with values of
            the frame (`.findings`), or if an argument is wrong, naming it.
        TypeError: if the frame is not a pandas frame or, of linked tables, not a dictionary of two.

    >>> import dp_core as dp, pandas as pd
    >>> people = pd.DataFrame({"sex": [1, 2] * 500, "age": range(1000)})
    >>> people["age"] %= 90
    >>> schema = {"version": 1, "title": "Two columns", "columns": {
    ...     "sex": {"type": "category", "levels": {1: "male", 2: "female"}},
    ...     "age": {"type": "integer", "min": 0, "max": 99, "bins": 5}}}
    >>> made = dp.release(people, schema, sets=2)
    >>> list(made.sets[0].columns), len(made.sets)
    (['sex', 'age'], 2)
    >>> made.query("count by sex").determined
    True
    """
    stated: dict[str, Any] = {
        "privacy": {"epsilon": _text(epsilon), "delta": _text(delta), "neighbours": neighbours},
        "method": method,
    }
    if tables := [tables] if isinstance(tables, str) else list(tables):
        stated["tables"] = tables
    if analyses := analyses if isinstance(analyses, str | Mapping) else list(analyses):
        stated["analyses"] = analyses
    stated |= _sections(stages or {})
    own = {"sets": sets, "rows": rows, "mode": mode, "seed": seed}
    synthesize = stated.setdefault("synthesize", {})
    if both := [name for name in own if name in synthesize]:
        raise BadInput(f"release: give {both[0]} as an argument, not under stages['synthesize'].")
    synthesize |= {name: value for name, value in own.items() if value is not None}
    if prior is not None:
        stated["prior"] = "in-memory"
    plan = memory_plan(read_schema(schema), stated, find_prior=lambda _, own: _prior(prior, own))
    linked, counter = plan.spec.schema.linked, MemoryCounter(frame_codes(frame, plan.spec.schema))
    return MemoryRelease(
        carry_out(plan, counter if linked is None else HouseholdCounter(counter, linked))
    )


def _prior(prior: Prior | None, schema: Schema) -> PublicPrior:
    """Return public records in the codes of a schema.

    Raises:
        BadInput: if they cannot be used.
        TypeError: if it is neither a folder, a release in memory nor a frame.
    """
    if isinstance(prior, MemoryRelease):
        mode = prior.plan.plan.spec.mode
        return prior_of_frames(prior.sets, schema, apart=mode == "posterior")
    if not isinstance(prior, str | os.PathLike):
        return prior_of_frames([prior], schema)
    path = Path(prior)
    if path.is_file():
        # privacy: a ledger may know the file as confidential, and this room knows no ledger.
        raise BadInput(
            f"{path} is a file, and this function cannot check in the ledger that it is not"
            " confidential; read a public file with pandas and pass the frame."
        )
    return prior_of_release(path, schema)


def _text(number: Number) -> str:
    return "true" if number is True else str(number)


def _sections(stages: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    for name, options in stages.items():
        if name not in STAGES:
            raise BadInput(f"release, stages: there is no {name!r}.{nearest(str(name), STAGES)}")
        if not isinstance(options, Mapping):
            raise BadInput(
                f"release, stages: {name!r} must be a dictionary, such as {{'share': 0.2}}."
            )
    return {name: dict(options) for name, options in stages.items()}
