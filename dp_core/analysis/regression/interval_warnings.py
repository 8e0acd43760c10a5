"""Reasons why the intervals of a regression on the sets may be wrong, by coefficient.

Everything here is known from public numbers. A concern names the coefficients that it is about; the
others are not affected by it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from dp_core.bundle.quality.relations import measured_cliques
from dp_core.bundle.reading import Bundle
from dp_core.bundle.report.provenance import enumeration
from dp_core.inference.combine import Combined
from dp_core.inference.combining_rules import OFF
from dp_core.inference.formulas.formula import Formula
from dp_core.inference.measured_relations import (
    needed_groups,
    unmeasured_groups,
    unmeasured_sentence,
)
from dp_core.kernel.counting.linked_columns import OTHER
from dp_core.schema.dependencies import origin
from dp_core.schema.linked.linked_tables import other

FEWEST_DEGREES = 5.0
"""Degrees of freedom below which an interval from several sets gets a warning."""

Kind = Literal["few-sets", "clusters", "cluster-noise"]


@dataclass(frozen=True, slots=True)
class Concern:
    """A reason why the intervals of some coefficients may be wrong.

    Attributes:
        kind: `few-sets`: the interval has few degrees of freedom, because there are few sets.
            `clusters`: the sets do not reproduce the correlation within clusters.
            `cluster-noise`: the tables by cluster are mostly noise.
        coefficients: Names of the coefficients.
        text: The reason, in a sentence or two.
    """

    kind: Kind
    coefficients: tuple[str, ...]
    text: str


def general_warnings(bundle: Bundle, combined: Combined | None) -> Iterator[str]:
    """Yield the reasons why all intervals from these sets miss their stated coverage."""
    if combined is None:
        yield (
            "This interval treats synthetic rows as real records: it ignores the sampling of the"
            " set and the noise of the measurement, so it is too narrow."
        )
    elif not combined.includes_noise:
        yield (
            "These intervals are too narrow: all sets come from one noisy measurement, and the"
            " differences between sets do not show the noise that they share."
        )
    if bundle.origin != "modelled":
        yield f"No interval from these sets is valid: {OFF[bundle.origin]}"


def relation_warnings(bundle: Bundle, formula: Formula) -> Iterator[str]:
    """Yield a warning about relations that were measured as sums only, or may not be measured."""
    if bundle.origin in ("drawn", "chosen"):
        return
    tables, sums = measured_cliques(bundle.measured)
    if not tables and not sums:
        yield (
            "The release has no noisy table, so it is unknown which relations its sets reproduce;"
            " its report says what the method models."
        )
        return
    missing = unmeasured_groups(_groups(bundle, formula), tables)
    if len(unmeasured_groups(missing, sums)) < len(missing):
        yield (
            "Some of these relations were measured as noisy sums, not as tables: the sets reproduce"
            " them only as far as the release's model does, without other curves or interactions."
        )


def lost_relations(bundle: Bundle, formula: Formula) -> tuple[tuple[str, ...], ...]:
    """Return the groups of columns that the formula needs and that nothing measured holds.

    Empty if the records follow from draws or choices, or if nothing is known of the measurements.
    """
    if bundle.origin in ("drawn", "chosen"):
        return ()
    tables, sums = measured_cliques(bundle.measured)
    if not tables and not sums:
        return ()
    nested = (bundle.claims.schema.coarse or bundle.claims.schema).domain.nested
    return unmeasured_groups(
        unmeasured_groups(_groups(bundle, formula), tables, nested), sums, nested
    )


def few_sets(combined: Combined | None, names: Sequence[str]) -> tuple[Concern, ...]:
    """Return the concern about coefficients with few degrees of freedom; none if there are none.

    Args:
        combined: Combined coefficients; None for a single set.
        names: Their names.
    """
    if combined is None:
        return ()
    found = np.broadcast_to(combined.degrees_of_freedom, (len(names),))
    few = [name for name, df in zip(names, found, strict=True) if df < FEWEST_DEGREES]
    if not few:
        return ()
    text = (
        f"Fewer than {FEWEST_DEGREES:g} degrees of freedom for {listed(few)} from"
        f" {combined.sets} sets: the intervals are wide, and their widths are uncertain."
    )
    if min(combined.complete_df or math.inf, combined.design_df or math.inf) >= FEWEST_DEGREES:
        text += " More sets from the same noisy tables cost no privacy (`sets: 20`)."
    return (Concern("few-sets", tuple(few), text),)


def _groups(bundle: Bundle, formula: Formula) -> tuple[tuple[str, ...], ...]:
    """Return the groups of columns that a formula needs.

    An outcome of persons is also in a group with that of another member of the household: how alike
    members are affects the standard errors.
    """
    outcome = source_columns(bundle, formula.outcome_columns)
    found = needed_groups(outcome, [source_columns(bundle, term) for term in formula.terms])
    linked = bundle.claims.schema.linked
    persons = () if linked is None else linked.person_columns
    alike = [(name, other(name)) for name in outcome if name in persons]
    return tuple(dict.fromkeys((*found, *alike)))


def source_columns(bundle: Bundle, names: Sequence[str]) -> list[str]:
    """Return the measured columns that these columns are or depend on."""
    schema = bundle.claims.schema.coarse or bundle.claims.schema
    return list(dict.fromkeys(origin(schema, name)[0] for name in names))


def household_concerns(
    bundle: Bundle, formula: Formula, names: tuple[str, ...]
) -> tuple[Concern, ...]:
    """Return the concern that the sets do not show how alike the members of a household are.

    Args:
        bundle: The release.
        formula: Formula of a regression of persons.
        names: Names of all coefficients.
    """
    alike = [group for group in lost_relations(bundle, formula) if of_members(group)]
    if not alike:
        return ()
    return (Concern("clusters", names, unmeasured_sentence(alike)),)


def coefficients_of_groups(
    bundle: Bundle,
    formula: Formula,
    columns: Mapping[str, Sequence[str]],
    lost: Sequence[tuple[str, ...]],
) -> tuple[str, ...]:
    """Return the coefficients whose columns are, with the outcome, in a group of these.

    Args:
        bundle: The release.
        formula: Formula of the regression.
        columns: Columns of each coefficient's term.
        lost: Groups of columns that nothing measured holds.
    """
    outcome = set(source_columns(bundle, formula.outcome_columns))
    groups = [set(group) - outcome for group in lost]
    return tuple(
        name
        for name, own in columns.items()
        if any(group & {*source_columns(bundle, own)} for group in groups)
    )


def of_members(group: Sequence[str]) -> bool:
    """Return whether a group has a column of another member of the household."""
    return any(name.startswith(OTHER) for name in group)


def listed(phrases: Sequence[str], most: int = 4) -> str:
    """Return phrases as a list in words; after `most` of them, the number of the others.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    shown = list(phrases[:most])
    if len(phrases) > most:
        shown.append(f"{len(phrases) - most} more")
    return enumeration(shown)
