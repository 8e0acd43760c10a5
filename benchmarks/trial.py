"""Plans for data that are already coded, for benchmarks and tests."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

from dp_core.accounts.requested import Privacy
from dp_core.kernel.counting.domain import Domain
from dp_core.kernel.document import A_ROW, ProtectedUnit
from dp_core.kernel.privacy import Neighbours, Noise, Stage
from dp_core.methods import registry
from dp_core.methods.parametric.drawn_records import Measuring, Modelling
from dp_core.methods.reconstruction.gum import Gum
from dp_core.methods.reconstruction.reconstructor import Reconstructor
from dp_core.methods.selection.selector import Selector
from dp_core.plan.forecast.one_step import better_plan
from dp_core.plan.plan import Plan, make_plan
from dp_core.plan.presets import PRESETS
from dp_core.plan.reading.method_reader import check_mode, check_pair, for_mode, for_posterior
from dp_core.plan.reading.share_reader import resolve_shares
from dp_core.plan.release_spec import Mode, ReleaseSpec, name_of, plain_options
from dp_core.schema.definition import Column, Level, Schema
from dp_core.schema.grid import POSITIONS
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.schema.variables import Variable, Variables
from dp_core.text.documents.node import from_plain


def trial_plan(
    domain: Domain,
    method: str,
    epsilon: Fraction,
    delta: Fraction = Fraction(0),
    *,
    neighbours: Neighbours = "add-remove",
    max_rows: int = 1,
    select: Mapping[str, Any] | None = None,
    reconstruct: Mapping[str, Any] | None = None,
    synthesize: Mapping[str, Any] | None = None,
    variables: Variables | None = None,
    shares: Mapping[Stage, Fraction] | None = None,
    noise: Noise | Literal["auto"] | None = None,
    sets: int = 1,
    rows: int | None = None,
    mode: Mode = "shared",
    seed: int = 1,
    zeros: StructuralZeros | None = None,
    rows_about: int | None = None,
) -> Plan:
    """Return the plan of a preset for a domain whose levels are its codes.

    Args:
        domain: All columns.
        method: Name of the preset.
        epsilon: Epsilon of the guarantee.
        delta: Delta of the guarantee, default 0.
        neighbours: Neighbouring relation of the guarantee.
        max_rows: Most rows of one person; 1 protects rows.
        select: Options of the selection; its key `method` replaces the preset's method, and the
            options of the preset.
        reconstruct: Options of the reconstruction, in the same form.
        synthesize: Options of a parametric method.
        variables: Columns of a parametric method if some are numeric; None if none is.
        shares: Shares of stages; the preset divides the rest.
        noise: Kind of count noise; None for the preset's.
        sets: Number of synthetic sets.
        rows: Records per set; None for the estimated number of rows.
        mode: How the m sets are made.
        seed: Seed of post-processing.
        zeros: Impossible cells.
        rows_about: What the schema says about the number of rows; None (the default) for nothing.

    Raises:
        BadInput: if there is no such method, it cannot take the domain, or posterior sets ignore a
            stated option of the reconstruction.
    """
    preset = PRESETS[method]
    zeros = zeros or StructuralZeros()
    selector: Selector
    reconstructor: Reconstructor
    if preset.synthesize:
        columns = variables or _levels_only(domain)
        chosen = registry.find("parametric", preset.synthesize)
        chosen = chosen(**{**preset.options.get("synthesize", {}), **(synthesize or {})})
        selector = Measuring(method=chosen, variables=columns, records=rows)
        reconstructor = Modelling(method=chosen, variables=columns, positions=POSITIONS)
        schema = _grid_schema(columns, zeros)
        document: dict[str, object] = {
            "synthesize": {"method": preset.synthesize, **plain_options(chosen)}
        }
    else:
        selector = _method("selection", preset.select, preset.options, select)
        reconstructor = _method(
            "reconstruction",
            for_mode(preset, mode, selector).reconstruct,
            preset.options,
            reconstruct,
        )
        selector.check(domain)
        reconstructor.check(domain)
        check_pair(selector, reconstructor)
        schema = dataclasses.replace(codes_schema(domain, zeros), rows_about=rows_about)
        document = {
            "select": {"method": name_of(selector), **plain_options(selector)},
            "reconstruct": {"method": name_of(reconstructor), **plain_options(reconstructor)},
        }
    privacy = Privacy(
        epsilon=epsilon,
        delta=delta,
        neighbours=neighbours,
        protects=A_ROW if max_rows == 1 else ProtectedUnit("person", "person", max_rows),
    )
    unused = {"total"} if privacy.relation.rows_public else set()
    unused |= selector.idle
    usable = {stage: share for stage, share in preset.shares.items() if stage not in unused}
    resolved = resolve_shares(shares or {}, usable)
    check_mode(mode, sets, selector, reconstructor)
    if mode == "posterior" and isinstance(reconstructor, Gum):
        stated = from_plain(reconstruct or {}, "trial", "reconstruct")
        reconstructor = for_posterior(stated, reconstructor)
    selector.check_basics(
        privacy.relation.of_rows, [stage for stage, share in resolved.items() if share]
    )
    spec = ReleaseSpec(
        release="trial",
        data="",
        folder=Path(),
        schema=schema,
        account="trial",
        revises=None,
        privacy=privacy,
        method=method,
        shares=resolved,
        noise=noise or preset.noise or "auto",
        selector=selector,
        reconstructor=reconstructor,
        sets=sets,
        rows=rows,
        mode=mode,
        seed=seed,
        document={"method": method, **document},
    )
    if shares is None:
        plan = better_plan(spec)
        if plan is not None:
            document["select"] = {"method": name_of(selector), **plain_options(plan.spec.selector)}
            whole = dataclasses.replace(plan.spec, document={"method": method, **document})
            return dataclasses.replace(plan, spec=whole)
    return make_plan(spec)


def codes_schema(domain: Domain, zeros: StructuralZeros) -> Schema:
    """Return a schema whose columns are categories with their codes as levels."""
    columns = tuple(
        Column(
            name=name,
            kind="category",
            levels=tuple(Level(str(code), str(code)) for code in range(size)),
        )
        for name, size in zip(domain.columns, domain.sizes, strict=True)
    )
    return Schema(title="trial", columns=columns, zeros=zeros, document={})


def _levels_only(domain: Domain) -> Variables:
    sizes = zip(domain.columns, domain.sizes, strict=True)
    return Variables(tuple(Variable(name=name, size=size) for name, size in sizes))


def _grid_schema(variables: Variables, zeros: StructuralZeros) -> Schema:
    """Return a schema whose numeric columns are whole numbers from 0, one for each position."""
    levels = codes_schema(variables.domain, zeros)
    columns = tuple(
        Column(
            name=variable.name,
            kind="integer",
            edges=tuple(map(Fraction, range(variable.positions + 1))),
            missing="level" if variable.missing else "reject",
        )
        if variable.numeric
        else column
        for variable, column in zip(variables, levels.columns, strict=True)
    )
    plain = dataclasses.replace(levels, columns=columns)
    return dataclasses.replace(plain, coarse=plain)


def _method(
    family: registry.Family,
    default: str,
    options: Mapping[str, Mapping[str, object]],
    stated: Mapping[str, Any] | None,
) -> Any:
    stated = dict(stated or {})
    name = stated.pop("method", default)
    own = options.get("select" if family == "selection" else "reconstruct", {})
    return registry.find(family, name)(**{**(own if name == default else {}), **stated})
