"""The release spec: everything that defines a release, and nothing about machines.

Parsing, and every message about a mistake, is in `dp_core.spec.reading.spec_file`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal, get_args

from dp_core.methods.reconstruction.reconstructor import Reconstructor
from dp_core.methods.selection.selector import Selector
from dp_core.schema.definition import Schema
from dp_core.schema.privacy import Noise, Privacy, Stage
from dp_core.spec.data_location import DataPlace
from dp_core.spec.quality_checks import Threshold
from dp_core.tables.domain import Clique

Mode = Literal["shared", "split", "noise-aware"]
"""`shared`: m sets from one measurement and one model. `split`: m measurements, each at 1/m of the
budget. `noise-aware`: one measurement, and m models whose spread carries its noise."""


Publish = Literal["at-once", "after-approval"]
"""`after-approval`: a release that is made is held until a person publishes or withdraws it."""


PUBLISH: tuple[Publish, ...] = get_args(Publish)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseSpec:
    """One release.

    Attributes:
        release: Its name, used once per ledger.
        data: Path or glob of CSV or Parquet, as written, relative to `folder`; or a table.
        folder: Folder of the spec file.
        schema: Parsed schema.
        account: Ledger account that pays.
        revises: Finished release of the same account that this one corrects, None for none.
        privacy: The guarantee asked for.
        method: Name of the preset.
        shares: Part of the budget of each paying stage; all stages named, summing to exactly 1.
        noise: Kind of count noise, or `auto`: the plan takes the smaller one.
        selector: Which tables to measure.
        reconstructor: From noisy tables to a model.
        sets: Number of synthetic files, m.
        rows: Records per set; None is `same`: the public or the noisy number of rows.
        mode: How the m sets are made.
        seed: Of post-processing.
        formulas: Regressions that are compared with the confidential file, for staff only.
        checks: Tables whose distance from the data is measured for the share of `checks`.
        thresholds: By which figures hold or end the release.
        publish: Whether a person decides before it is published.
        document: The resolved spec as plain JSON values, in a fixed order; its hash is the plan's.
    """

    release: str
    data: DataPlace
    folder: Path
    schema: Schema
    account: str
    revises: str | None
    privacy: Privacy
    method: str
    shares: Mapping[Stage, Fraction]
    noise: Noise | Literal["auto"]
    selector: Selector
    reconstructor: Reconstructor
    sets: int
    rows: int | None
    mode: Mode
    seed: int
    formulas: tuple[str, ...] = ()
    checks: tuple[Clique, ...] = ()
    thresholds: tuple[Threshold, ...] = ()
    publish: Publish = "at-once"
    document: Mapping[str, object]
