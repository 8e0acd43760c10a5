"""The release spec: everything that defines a release, and which machines count.

`dp_core.plan.reading.spec_file` parses it and reports mistakes.

The options of a method are the fields of its frozen dataclass. The type annotation of a field
decides how its text is read, so a new method needs no code here. Allowed are `bool`, `int`,
`float`, `str`, `Fraction`, `Literal`, `tuple[X, ...]` (cliques are `tuple[tuple[str, ...], ...]`),
and unions of these with or without None.
"""

from __future__ import annotations

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal, Union, get_args

import numpy as np

from dp_core.accounts.requested import Privacy
from dp_core.errors import BadInput, nearest
from dp_core.inference.formulas.declared_analysis import DeclaredAnalysis
from dp_core.inference.formulas.declared_statistic import DeclaredStatistic
from dp_core.kernel.counting.domain import Clique
from dp_core.kernel.privacy import Noise, Stage
from dp_core.methods.option_ranges import NO_OPTION
from dp_core.methods.parametric.drawn_records import Modelling
from dp_core.methods.prior import PublicPrior
from dp_core.methods.reconstruction.auto import AutoReconstruction
from dp_core.methods.reconstruction.gum import Gum
from dp_core.methods.reconstruction.reconstructor import Reconstructor
from dp_core.methods.replicates.posterior.posterior_tables import MOST_PAIRS
from dp_core.methods.selection.selector import Selector
from dp_core.methods.trends import ordered_columns
from dp_core.plan.counting_cluster import CountingCluster
from dp_core.plan.data_location import DataPlace
from dp_core.plan.earlier_release import EarlierRelease
from dp_core.plan.quality_checks import Threshold
from dp_core.schema.definition import Schema
from dp_core.schema.reading.schema_document import schema_hash
from dp_core.text.documents.node import Node
from dp_core.text.documents.typed_text import quote

VERSION = 1
"""Version of the format of spec files."""

Mode = Literal["shared", "split", "posterior"]
"""`shared`: m sets from one measurement and one model. `split`: m measurements, each at 1/m of the
budget. `posterior`: one measurement, and m draws from the posterior of the exact tables under a
learned prior."""


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

    @property
    def set_numbers(self) -> Sequence[int]:
        """Numbers of the sets that are drawn: 1 to m, after the best set, which is 0, if any."""
        return range(0 if self.mode == "posterior" else 1, self.sets + 1)

    @property
    def uses_posterior_tables(self) -> bool:
        """Whether sets are made from tables of the posterior distribution, not from a fit."""
        if self.mode == "posterior" or self.schema.has_drawn_tables or self.prior is not None:
            return True
        pairs = math.comb(len(self.schema.domain), 2)
        able = isinstance(self.reconstructor, AutoReconstruction) and pairs <= MOST_PAIRS
        return self.mode == "shared" and able

    @property
    def ordered(self) -> Mapping[str, int]:
        """Number of ordered codes of each column whose trends may be measured, in domain order.

        It is empty if the method measures no trends, or if its sets could not be drawn with them.
        """
        domain = self.schema.domain
        flat = domain.linked is None and domain.nested is None
        able = flat and self.selector.measures_trends and self.uses_posterior_tables
        return ordered_columns(self.schema) if able else {}

    def drawing(self, number: int) -> Reconstructor:
        """Return the method that makes the records of a set from its tables.

        Args:
            number: Number of the model of the set; 0 is that of all sets, or of the best one.
        """
        drawn = self.schema.has_drawn_tables or (self.mode == "posterior" and number)
        if drawn and isinstance(self.reconstructor, AutoReconstruction):
            return Gum(implied=False)  # tables of all pairs are given, so records imply no others
        return self.reconstructor

    def rng(self, purpose: str, number: int) -> np.random.Generator:
        """Return the generator of one piece of post-processing, derived from the seed.

        Args:
            purpose: What the piece is.
            number: Number of a set or model, from 1; 0 for all of them.
        """
        return np.random.default_rng([self.seed, number, *purpose.encode()])


def spec_document(spec: ReleaseSpec) -> dict[str, object]:
    """Return the resolved spec under its own keys, without paths of this machine.

    All defaults are filled in and all numbers exact. The plan's hash covers it, and the bundle
    contains it.
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
        parametric = {"method": name_of(method), "positions": positions, **plain_options(method)}
    else:
        selector, reconstructor = spec.selector, spec.reconstructor
        options = plain_options(selector)
        before = {"select": {"method": name_of(selector), **share("select"), **options}}
        options = plain_options(reconstructor)
        after = {"reconstruct": {"method": name_of(reconstructor), **options}}

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


CLIQUES = tuple[tuple[str, ...], ...]


def read_options(
    method: Any,
    name: str,
    section: Node,
    preset: Mapping[str, object],
    reserved: Sequence[str],
    check_clique: Callable[[Node], object],
) -> Any:
    """Return the method with its options.

    Args:
        method: Frozen dataclass; its fields are the options.
        name: The method's name in the spec.
        section: Node of the stage.
        preset: Options that the preset sets; the spec overrides them.
        reserved: Keys of the stage that are not options.
        check_clique: Refuses a list of columns that the schema does not have.

    Raises:
        BadInput: if an option is unknown, of the wrong type, or refused by the method.
    """
    hints = typing.get_type_hints(method)
    fields = {field.name: field for field in dataclasses.fields(method) if _is_option(field)}
    given = {key: node for key, node in section.entries().items() if key not in reserved}
    options = dict(preset)
    for key, node in given.items():
        if key not in fields:
            place = Node(None, node.source, node.line, section.key)
            raise place.error(
                f"there is no key {quote(key)} here, and {name} has no option of that name."
                f"{nearest(key, (*reserved, *fields))}"
            )
        options[key] = convert(node, hints[key])
        if hints[key] == CLIQUES:
            for clique in node.items():
                check_clique(clique)
    for key, field in fields.items():
        bare = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if bare and key not in options:
            raise section.error(f"{name} needs the option {key!r}.")
    try:
        return method(**options)
    except ValueError as error:
        told = str(error)
        named = next((key for key in given if key in told), None)
        if named is None:
            raise section.error(told) from None
        if not told.startswith(f"{named} and "):
            # The place names the key already.
            told = told.removeprefix(f"{named} ")
        raise given[named].error(told) from None


def convert(node: Node, hint: Any) -> Any:
    """Return a node's value as the annotated type.

    Raises:
        BadInput: if it is not of that type.
        TypeError: if a spec cannot state values of the annotated type.
    """
    if hint is bool:
        return node.boolean()
    if hint is int:
        return node.integer()
    if hint is float:
        return float(node.fraction())
    if hint is Fraction:
        return node.fraction()
    if hint is str:
        return node.text()
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal:
        words = {str(value): value for value in arguments}
        return words[node.choice(tuple(words))]
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return tuple(convert(item, arguments[0]) for item in node.items())
    if origin in (Union, types.UnionType):
        return _convert_union(node, arguments)
    raise TypeError(f"An option of type {hint} cannot be stated in a spec.")


def name_of(method: Any) -> str:
    """Return the name of a method, or of the parametric method of which it is a half: its module's.

    >>> name_of(Gum())
    'gum'
    """
    return type(getattr(method, "method", method)).__module__.rpartition(".")[2]


def plain_options(method: Any) -> dict[str, object]:
    """Return a method's options as plain JSON values, exact numbers as text."""
    return {
        field.name: _plain(getattr(method, field.name))
        for field in dataclasses.fields(method)
        if _is_option(field)
    }


def _is_option(field: dataclasses.Field[Any]) -> bool:
    """Return whether a field is an option of its stage; `NO_OPTION` fields are set elsewhere."""
    return field.init and field.metadata != NO_OPTION


def _convert_union(node: Node, arguments: Sequence[Any]) -> Any:
    if type(None) in arguments and node.content in (None, "none"):
        return None
    # Literals first, so that for `int | Literal["auto"]` the error is the one about the number.
    choices = sorted(
        (hint for hint in arguments if hint is not type(None)),
        key=lambda hint: typing.get_origin(hint) is not Literal,
    )
    for hint in choices[:-1]:
        try:
            return convert(node, hint)
        except BadInput:
            continue
    return convert(node, choices[-1])


def _plain(value: object) -> object:
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value
