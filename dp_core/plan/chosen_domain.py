"""Bins, levels, codes and densities from a release's noisy answers. Public arithmetic."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dp_core.client.released import Released, Totals
from dp_core.kernel.codes import Codes, code_type
from dp_core.methods.parametric.drawn_records import Measuring, Modelling
from dp_core.methods.private_domain.quantile_tree import (
    equal_cuts,
    estimate,
    most_frequent,
    pieces_of,
    pieces_of_levels,
)
from dp_core.methods.private_domain.questions import questions
from dp_core.schema.bin_pieces import Pieces, weights_of
from dp_core.schema.definition import Choice, Column, Schema
from dp_core.schema.grid import Recoding, variables, zeros_on_grid
from dp_core.schema.reading.domain_reader import bins_of, levels_of
from dp_core.schema.rules.excluded_boxes import with_excluded_boxes

if TYPE_CHECKING:
    from dp_core.plan.plan import Plan


@dataclass(frozen=True, slots=True)
class Chosen:
    """The privately chosen bins or levels of a column.

    Attributes:
        codes: Cuts between positions, or the levels kept; see `Choice`.
        pieces: Weights within bins, or within groups of levels that are drawn again; see `Choice`.
    """

    codes: tuple[int, ...]
    pieces: Pieces = ()

    def entry(self, column: str) -> dict[str, object]:
        """Return the choice as a statement states it."""
        found: dict[str, object] = {"column": column, "codes": list(self.codes)}
        if self.pieces:
            starts, weights = zip(*self.pieces, strict=True)
            found["within"] = {"from": list(starts), "thousandths": list(weights)}
        return found


Choices = Mapping[str, Chosen]
"""The choice for each column with privately chosen bins or levels."""


def choose(schema: Schema, released: Sequence[Released]) -> Choices:
    """Return the bins and levels that follow from noisy answers, deterministically.

    Args:
        schema: Schema with privately chosen bins or levels.
        released: Results that include the answers to all questions of `domain`.

    Raises:
        ValueError: if an answer is missing, or answers another question.
    """
    answers = [item for item in released if isinstance(item, Totals) and item.stage == "domain"]
    asked = questions(schema)
    if [item.of for item in answers] != [each.what for each in asked]:
        raise ValueError("The answers do not match the questions of the schema's bins and levels.")
    found: dict[str, Chosen] = {}
    for column in schema.private:
        mine = [
            item for item, each in zip(answers, asked, strict=True) if each.column == column.name
        ]
        counts = [[int(count) for count in item.values] for item in mine]
        if column.levels:
            found[column.name] = _levels(column, counts[0], mine[0].variance)
        else:
            found[column.name] = _bins(column, counts, mine[0].variance)
    return found


def with_choices(schema: Schema, choices: Choices) -> Schema:
    """Return the schema with the chosen bins and levels.

    Args:
        schema: Schema of the spec; numeric columns may be on a grid.
        choices: Choice for every column with private bins or levels.

    Raises:
        ValueError: if the choices are for other columns, or are impossible.
    """
    if {*choices} != {column.name for column in schema.private}:
        raise ValueError("The choices are for other columns than the schema's private ones.")
    coarse = None if schema.coarse is None else with_choices(schema.coarse, choices)
    columns = tuple(
        column if column.choice is None else _column_with_choice(column, choices[column.name])
        for column in schema.columns
    )
    made = replace(schema, columns=columns, coarse=coarse)
    if not schema.rules:
        return made
    # The boxes of rules follow from the edges.
    zeros = with_excluded_boxes(made, made.rules) if coarse is None else zeros_on_grid(made)
    return replace(made, zeros=zeros)


def resolved_plan(plan: Plan, choices: Choices) -> Plan:
    """Return the plan with the chosen bins and levels, for later stages; its hash is unchanged."""
    spec = plan.spec
    schema = with_choices(spec.schema, choices)
    selector, reconstructor = spec.selector, spec.reconstructor
    if isinstance(selector, Measuring) and isinstance(reconstructor, Modelling):
        columns = variables(schema)
        selector = replace(selector, variables=columns)
        reconstructor = replace(reconstructor, variables=columns)
    spec = replace(spec, schema=schema, selector=selector, reconstructor=reconstructor)
    return replace(plan, spec=spec)


def with_fitted_densities(plan: Plan, released: Sequence[Released]) -> Plan:
    """Return the plan with densities within its public bins; its hash is unchanged.

    Args:
        plan: Plan of the release, with the privately chosen bins and levels.
        released: Everything that was measured, of all sets. Only tables matter, so that results of
            declared analyses may be among them or not.
    """
    from dp_core.methods.bin_density.fitting import with_densities

    schema = with_densities(plan.spec.schema, released)
    if schema is plan.spec.schema:
        return plan
    return replace(plan, spec=replace(plan.spec, schema=schema))


def recoding(schema: Schema) -> Recoding:
    """Return the recoding from `Schema.stored` to a schema with all bins and levels chosen."""
    tables = {
        column.name: _codes(column) for column in schema.columns if column.stored is not column
    }
    return Recoding(schema.domain, tables)


def statement(schema: Schema) -> list[dict[str, object]]:
    """Return the choices for the statement of the release; empty if there are none."""
    found: list[dict[str, object]] = []
    for column in schema.private:
        choice = column.choice
        assert choice is not None
        assert choice.codes is not None
        entry = Chosen(choice.codes, choice.pieces).entry(column.name)
        if column.levels:
            entry["levels"] = [level.text for level in column.levels]
        else:
            entry["edges"] = [column.scale.text(edge) for edge in column.edges]
        found.append(entry)
    return found


def read_statement(entries: object) -> Choices:
    """Return the choices of a statement.

    Raises:
        Exception: a lookup, type or value error if the entries do not have that shape.
    """
    if not isinstance(entries, list):
        raise TypeError("The choices must be a list.")
    found: dict[str, Chosen] = {}
    for entry in entries:
        within = entry.get("within", {"from": [], "thousandths": []})
        codes, starts, weights = entry["codes"], within["from"], within["thousandths"]
        for each in (codes, starts, weights):
            if not isinstance(each, list) or any(type(number) is not int for number in each):
                raise TypeError("Codes, positions and weights must be whole numbers.")
        pieces = tuple(zip(starts, weights, strict=True))
        found[entry["column"]] = Chosen(tuple(codes), pieces)
    return found


def _bins(column: Column, counts: Sequence[Sequence[int]], variance: float) -> Chosen:
    assert column.choice is not None
    missing = column.choice.among.missing_code is not None
    records = estimate([each[:-1] if missing else each for each in counts])
    cuts = equal_cuts(records, column.bins)
    return Chosen(cuts, pieces_of(records, cuts, variance))


def _levels(column: Column, counts: Sequence[int], variance: float) -> Chosen:
    """Return the levels with the largest noisy counts; ties go to the first in the schema."""
    choice = column.choice
    assert choice is not None
    number = column.bins - len(choice.groups)
    order = sorted(range(choice.among.bins), key=lambda code: (-counts[code], code))
    if not choice.drawn:
        return Chosen(tuple(sorted(order[:number])))
    kept = most_frequent(order, choice.group_of, number)
    return Chosen(kept, pieces_of_levels(counts, choice.group_of, kept, variance))


def _column_with_choice(column: Column, chosen: Chosen) -> Column:
    choice, codes = column.choice, chosen.codes
    assert choice is not None
    levels = bool(column.levels)
    number = column.bins - len(choice.groups) - (not levels)
    low, high = (-1, choice.among.bins) if levels else (0, choice.among.bins)
    ascending = all(one < other for one, other in zip((low, *codes), (*codes, high), strict=True))
    if len(codes) != number or not ascending or not _spread(chosen, choice, levels=levels):
        raise ValueError("The schema does not allow these bins or levels.")
    made = levels_of(choice, codes) if levels else bins_of(choice.among, codes)
    return replace(
        column,
        levels=made.levels,
        stands_for=made.stands_for,
        edges=made.edges,
        choice=replace(choice, codes=codes, pieces=chosen.pieces),
    )


def _spread(chosen: Chosen, choice: Choice, *, levels: bool) -> bool:
    """Return whether the pieces are possible: none for groups, or for all bins and drawn levels."""
    if levels and not choice.drawn:
        return not chosen.pieces
    positions, starts = choice.among.bins, [start for start, _ in chosen.pieces]
    return (
        starts[:1] == [0]
        and all(one < other for one, other in pairwise((*starts, positions)))
        and all(weight >= 0 for _, weight in chosen.pieces)
        and (_in_groups(chosen, choice) if levels else _over_bins(chosen, positions))
    )


def _in_groups(chosen: Chosen, choice: Choice) -> bool:
    """Return whether the levels that are not kept have a positive weight in every group."""
    weights = weights_of(range(choice.among.bins + 1), chosen.pieces)
    weights[list(chosen.codes)] = 0
    of_group = np.bincount(choice.group_of, weights, minlength=len(choice.groups))
    return bool((of_group > 0).all())


def _over_bins(chosen: Chosen, positions: int) -> bool:
    """Return whether pieces do not cross cuts, and no bin has weight 0."""
    return {*chosen.codes} <= {start for start, _ in chosen.pieces} and all(
        any(weight for start, weight in chosen.pieces if low <= start < high)
        for low, high in pairwise((0, *chosen.codes, positions))
    )


def _codes(column: Column) -> Codes:
    """Return the code for each code in which the column is stored."""
    among, choice = column.stored, column.choice
    if choice is None:
        # Every edge is an edge of the grid.
        codes = [bisect_right(column.edges, low) - 1 for low in among.edges[:-1]]
    elif column.levels:
        codes = [*choice.level_codes()]
    else:
        assert choice.codes is not None
        codes = list(np.searchsorted(choice.codes, np.arange(among.bins), side="right"))
    if among.missing_code is not None:
        codes.append(column.bins)
    return np.array(codes, dtype=code_type(column.size))
