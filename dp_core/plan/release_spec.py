"""The release spec: everything that defines a release, and which machines count.

`dp_core.plan.reading.spec_file` parses it and reports mistakes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from dp_core.inference.formulas.declared_analysis import DeclaredAnalysis
from dp_core.inference.formulas.declared_statistic import DeclaredStatistic
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.privacy import Noise, Privacy, Stage
from dp_core.methods.parametric.adapters import Modelling
from dp_core.methods.prior import PublicPrior
from dp_core.methods.reconstruction.reconstructor import Reconstructor
from dp_core.methods.selection.selector import Selector
from dp_core.plan.counting_cluster import CountingCluster
from dp_core.plan.data_location import DataPlace
from dp_core.plan.earlier_release import EarlierRelease
from dp_core.plan.method_options import plain_options
from dp_core.plan.quality_checks import Threshold
from dp_core.schema.definition import Schema
from dp_core.schema.reading.schema_document import schema_hash

VERSION = 1
"""Version of the format of spec files."""

Mode = Literal["shared", "split", "noise-aware", "posterior"]
"""`shared`: m sets from one measurement and one model. `split`: m measurements, each at 1/m of the
budget. `noise-aware`: one measurement, and m models whose spread includes its noise. `posterior`:
one measurement, and m draws from the posterior of the exact tables under a learned prior."""


Publish = Literal["at-once", "after-approval"]
"""`after-approval`: a finished release waits until a person publishes or withdraws it."""


PUBLISH: tuple[Publish, ...] = get_args(Publish)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReleaseSpec:
    """The request for one release.

    Attributes:
        release: Name of the release, which is used once in a ledger.
        data: Path or glob of CSV or Parquet files, relative to `folder`; a URL; or a table.
        folder: Folder of the spec file.
        schema: Parsed schema.
        account: Ledger account that pays.
        revises: Finished release of the same account that this one corrects, or None.
        privacy: Requested guarantee.
        method: Name of the preset.
        shares: Share of each paying stage; they sum to exactly 1.
        noise: Kind of count noise, or `auto` for the smaller one.
        selector: Method that selects the tables to measure.
        reconstructor: Method that fits a model to the noisy tables.
        sets: Number of synthetic sets, m; 0 for noisy tables only.
        rows: Records per set; None (`same`) for the public or the noisy number of rows.
        mode: How the m sets are made.
        seed: Seed of post-processing.
        formulas: Regressions to compare with the confidential data, for staff only.
        checks: Tables compared with the data at a charge.
        thresholds: Limits above which the release waits for approval or ends.
        publish: Whether a person must approve the publication; by default not.
        dask: Cluster to start for counting; None (the default) for threads of the process. It
            changes no result, so it is not part of `document`.
        measurements: Finished release whose noisy tables are used instead of measuring, which costs
            nothing and opens no data; None (the default) to measure.
        analyses: Regressions that the release measures directly; () by default.
        statistics: Means and totals that the release measures directly; () by default.
        declared: Texts of `analyses` and `statistics`, in their order; () by default.
        prior: Public records that predict how columns depend; None (the default) if there are none.
        document: The resolved spec as plain JSON values; the plan's hash covers it.
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
    dask: CountingCluster | None = None
    measurements: EarlierRelease | None = None
    analyses: tuple[DeclaredAnalysis, ...] = ()
    statistics: tuple[DeclaredStatistic, ...] = ()
    declared: tuple[str, ...] = ()
    prior: PublicPrior | None = None
    document: Mapping[str, object]

    @property
    def replicates(self) -> int:
        """Number of independent measurements: 1, or one for each set."""
        return self.sets if self.mode == "split" else 1

    def rng(self, purpose: str, number: int) -> np.random.Generator:
        """Return the generator of one piece of post-processing, derived from the seed.

        Args:
            purpose: What the piece is.
            number: Number of a set or model, from 1; 0 for all of them.
        """
        return np.random.default_rng([self.seed, number, *purpose.encode()])


def spec_document(spec: ReleaseSpec, selector: str, reconstructor: str) -> dict[str, object]:
    """Return the resolved spec under its own keys, without paths of this machine.

    All defaults are filled in and all numbers exact. The plan's hash covers it, and the bundle
    contains it.

    Args:
        spec: The spec.
        selector: Name of its selection, or of its parametric method.
        reconstructor: Name of its reconstruction.
    """

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
    declared = {"formulas": list(spec.declared), "share": str(spec.shares.get("analyses"))}
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
            **spec.privacy.protects.stated,
        },
        "method": spec.method,
        **({"tables": [table.to_json() for table in wanted]} if wanted else {}),
        **({"analyses": declared} if spec.declared else {}),
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
