"""Draws households, then their members, so that both agree with the fitted tables of pair rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dp_core.client.released import Table
from dp_core.errors import BadInput
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.linked_columns import MEMBERS, OTHER, LinkedColumns
from dp_core.methods import registry
from dp_core.methods.reconstruction.estimates.raking import rake
from dp_core.methods.reconstruction.linked.counted_members import CountedMembers, with_counts
from dp_core.methods.reconstruction.linked.member_targets import (
    Listed,
    ListedPairs,
    MemberTargets,
    ruled_members,
)
from dp_core.methods.reconstruction.reconstructor import FittedTables, Reconstructor
from dp_core.methods.reconstruction.sampling.drawing_progress import (
    Progress,
    ReportingSampler,
    step_of,
)
from dp_core.schema.linked.possible_members import households_with, with_donors
from dp_core.schema.structure.households_with_members import codes_with_members, domain_with_members
from dp_core.schema.structure.member_rules import MemberRule, broken_households
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.tables.household_rows import HouseholdRows, to_pair_rows

SWEEPS = 12
"""Most sweeps, each over all values of all members; more are made while a rule is broken."""

_MOST_SWEEPS = 50
_ENOUGH = 0.015  # part of the remaining error below which a sweep gains little
# Part of the households that is added to each wanted count in the error's weights. With less, the
# rarest cells dominate the error, more sweeps are made, and common cells are further off.
_SPARE = 0.001
# Sweeps after the first one that also copy whole persons. More help only while a rule is broken.
_COPIES = 3
_MOST_IMPLIED = 1 << 16  # cells of a table of a pair by the number of members
_RAKING_ROUNDS = 30
_FLOOR = 0.001  # records in an empty cell, which raking could not fill otherwise
_HOUSEHOLDS = 0.2  # part of the drawing after the households are drawn, for the progress


@dataclass(frozen=True, slots=True, eq=False)
class HouseholdModel(ReportingSampler, FittedTables):
    """Consistent tables of pair rows; the households and persons that are drawn match them.

    `rows` is the estimated number of households.

    Attributes:
        rules: Rules that count the members of a household; none by default.
    """

    rules: tuple[MemberRule, ...] = ()

    @property
    def streams(self) -> bool:
        """Whether a large set may be drawn in pieces; households are drawn all at once."""
        return False

    def sample_reporting(
        self, rows: int, *, rng: np.random.Generator, progress: Progress
    ) -> Dataset:
        """Return the pair rows of `rows` synthetic households, household by household.

        If a household can have no members that obey the rules, or none are found, another household
        with its members replaces it. Households that are drawn without members stay without.

        Raises:
            BadInput: if every household with members would have to be replaced.
        """
        linked = self.domain.linked
        assert linked is not None
        households = self._households(rows, linked, rng=rng)
        progress(_HOUSEHOLDS)
        codes = households.codes.copy()
        sizes = households.column(MEMBERS).astype(np.int64) + linked.min_members
        occupied = sizes > 0
        told = step_of(progress, _HOUSEHOLDS, 1.0)
        model = _with_members(self)
        made = model.with_drawn_members(
            codes[:-1, occupied], sizes[occupied], rng=rng, progress=told
        )
        codes[:-1, occupied], sizes[occupied] = made.households, made.sizes
        return to_pair_rows(linked, self.domain, HouseholdRows(codes[:-1], sizes, made.persons))

    def with_drawn_members(
        self,
        homes: Codes,
        sizes: NDArray[np.int64],
        *,
        rng: np.random.Generator,
        progress: Progress,
    ) -> HouseholdRows:
        """Return households with their members drawn; the domain has no empty households.

        Args:
            homes: Codes of the household columns, shape (columns, households).
            sizes: Number of members of each household.
            rng: Generator for post-processing.
            progress: Told about the members.
        """
        linked = self.domain.linked
        assert linked is not None
        names = (*linked.household_columns, MEMBERS)
        codes = np.vstack([homes, (sizes - 1).astype(homes.dtype)])
        households = Dataset(self.domain.project(names), codes)
        persons, broken = self._persons(households, sizes, linked, rng=rng, progress=progress)
        made = HouseholdRows(homes, sizes, persons)
        if not broken:
            return made
        pairs = to_pair_rows(linked, self.domain, made)
        bad = households_with(self.zeros.violations(pairs), sizes)
        bad |= broken_households(self.rules, linked.person_columns, made)
        if bad.all():
            raise BadInput(
                "No synthetic household has members that obey every rule; relax the rules between"
                " columns of the two tables under `impossible`, or those that count members."
            )
        return with_donors(made, bad, rng=rng)

    def _households(self, rows: int, linked: LinkedColumns, *, rng: np.random.Generator) -> Dataset:
        """Return the households, in the order of the household columns and `members`."""
        names = (*linked.household_columns, MEMBERS)
        within = [table for table in self.tables if set(table.clique) <= set(names)]
        if codes_with_members(self.domain):
            within = with_agreeing_empty(self.domain, within, self.zeros)
        # The reconstruction expects the tables of all columns first, in the domain's order.
        within.sort(key=lambda table: (len(table.clique) > 1, _places(names, table.clique)))
        zeros = StructuralZeros(
            tuple(rule for rule in self.zeros.rules if set(rule.columns) <= set(names))
        )
        gum: Reconstructor = registry.find("reconstruction", "gum")()
        model = gum.restore(self.domain.project(names), within, rows=rows, zeros=zeros)
        return model.sample(rows, rng=rng)

    def _persons(
        self,
        households: Dataset,
        sizes: NDArray[np.int64],
        linked: LinkedColumns,
        *,
        rng: np.random.Generator,
        progress: Progress,
    ) -> tuple[Codes, bool]:
        """Return the codes of all persons, and whether some member may break a rule.

        The codes are household by household, of shape (columns, persons).
        """
        from dp_core.methods.reconstruction.kernels.member_copies import copy_members
        from dp_core.methods.reconstruction.kernels.member_moves import add_members, move_members

        tables = with_agreeing_members(self.domain, self.tables)
        tables = (*tables, *implied_by_size(self.domain, tables))
        targets = MemberTargets.of(self.domain, tables, self.zeros, households.rows)
        household_of = np.repeat(np.arange(sizes.size), sizes)
        start = np.cumsum(sizes) - sizes
        codes = households.codes.astype(np.int64)
        persons = np.stack(
            [
                self._first_values(name, sizes[household_of], rng=rng)
                for name in linked.person_columns
            ]
        )
        if self.rules:
            names = linked.person_columns
            alone = [self.project((name,)) for name in names]
            persons = with_counts(persons, sizes, self.rules, names, alone, rng=rng)
        counted = arrays(CountedMembers.of(self.domain, self.rules))
        width = np.array(self.domain.project(linked.person_columns).sizes, dtype=np.int64)
        own, pairs, rules = (arrays(each) for each in (targets.own, targets.pairs, targets.rules))
        gap = -targets.wanted
        add_members(codes, persons, household_of, start, sizes, own, pairs, gap)
        # Then single changes alone lead from one possible person to few others.
        tied = any(
            len({*clique} & {*linked.person_columns}) > 1
            for clique in ruled_members(self.domain, self.zeros)
        )
        worth = 1.0 / (targets.wanted + max(1.0, _SPARE * households.rows))
        broken = False
        for sweep in range(_MOST_SWEEPS):
            copied = 0.0
            if tied and (0 < sweep <= _COPIES or broken):
                copied = copy_members(
                    codes, persons, household_of, start, sizes, rng.permutation(household_of.size),
                    rng.integers(household_of.size, size=household_of.size), own, pairs, rules,
                    targets.forbidden, counted, gap, worth,
                )  # fmt: skip
            gained, broken = move_members(
                codes, persons, household_of, start, sizes, rng.permutation(household_of.size),
                width, own, pairs, rules, targets.forbidden, counted, gap, worth,
            )  # fmt: skip
            progress(min(1.0, (sweep + 1) / SWEEPS))
            done = sweep + 1 >= SWEEPS or gained + copied <= _ENOUGH * float(
                (np.square(gap) * worth).sum()
            )
            if done and not broken:
                break
        return persons.astype(self.domain.code_type), broken

    def _first_values(
        self, name: str, members: NDArray[np.int64], *, rng: np.random.Generator
    ) -> NDArray[np.int64]:
        """Return a column's first values, drawn given the number of members if that was measured.

        Args:
            name: The person column.
            members: Number of members of each person's household.
            rng: Generator for post-processing.
        """
        from dp_core.methods.reconstruction.kernels.record_moves import whole

        size = self.domain.project((name,)).sizes[0]
        try:
            given = self.project((MEMBERS, name))
        except KeyError:
            given = np.broadcast_to(self.project((name,)), (int(members.max(initial=1)), size))
        found = np.empty(members.size, dtype=np.int64)
        for number in np.unique(members):
            mine = np.flatnonzero(members == number)
            counts = whole(np.maximum(given[number - 1], 0.0), mine.size, rng=rng)
            found[rng.permutation(mine)] = np.repeat(np.arange(size), counts)
        return found


def _with_members(model: HouseholdModel) -> HouseholdModel:
    """Return the model of the households with members; itself if all have members."""
    kept = codes_with_members(model.domain)
    if not kept:
        return model
    domain = domain_with_members(model.domain)
    tables = []
    for table in model.tables:
        every = (kept.get(name, range(domain.size((name,)))) for name in table.clique)
        cells = tuple(slice(codes.start, codes.stop) for codes in every)
        tables.append(Table(domain.project(table.clique), table.values[cells]))
    zeros = model.zeros.of_codes(kept)
    return replace(model, domain=domain, tables=tuple(tables), zeros=zeros)


def with_agreeing_empty(
    domain: Domain, tables: Sequence[Table], zeros: StructuralZeros
) -> list[Table]:
    """Return the tables; tables of two household columns leave room for the empty households.

    Vacant dwellings often have few possible codes, such as no income. The table of region and
    income must then leave room for the vacant dwellings of each region. Only the tables with
    `members` state their number. A noisy or unmeasured table may leave too little room, so it is
    raked to the tables with `members`.

    Args:
        domain: Domain of pair rows in which households may be empty.
        tables: Fitted tables of household columns and `members`.
        zeros: Impossible cells.
    """
    fitted = {table.clique: table.values for table in tables}
    found = []
    for table in tables:
        known = [(name, MEMBERS) for name in table.clique]
        if len(known) != 2 or not all(each in fitted for each in known):
            found.append(table)
            continue
        wide = domain.project((*table.clique, MEMBERS))
        if wide.size() > _MOST_IMPLIED:
            found.append(table)
            continue
        # The last axis is whether there are members: no, then yes.
        possible = np.add.reduceat(~zeros.mask(wide), (0, 1), axis=2) > 0
        margins = [(table.clique, np.maximum(table.values, _FLOOR))]
        margins += [(each, np.add.reduceat(fitted[each], (0, 1), axis=1)) for each in known]
        raked = rake(possible.astype(float), wide.columns, margins, rounds=_RAKING_ROUNDS)
        found.append(Table(table.domain, raked.sum(axis=2)))
    return found


def with_agreeing_members(domain: Domain, tables: Sequence[Table]) -> tuple[Table, ...]:
    """Return the tables after those of two members are made to agree with those of one.

    Every pair of members occurs in both orders, so in households of two or more members each column
    of the other member has the same table as that column of a member. A household of one member has
    no other member. Noisy tables do not agree on this.

    Args:
        domain: Domain of pair rows.
        tables: Fitted tables.
    """
    linked = domain.linked
    assert linked is not None
    fitted = {table.clique: table.values for table in tables}
    found = []
    for table in tables:
        known = [(MEMBERS, name.removeprefix(OTHER)) for name in table.clique]
        of_both = len(table.clique) == 2 and table.clique[1] in linked.others
        if not of_both or not all(each in fitted for each in known):
            found.append(table)
            continue
        (alone, rows), (_, columns) = (
            (values[0], values[1:].sum(axis=0)) for values in (fitted[each] for each in known)
        )
        together = table.values[:, :-1]
        if known[0] == known[1]:
            together = (together + together.T) / 2
        # Both add up to the households of two or more members, up to rounding.
        columns = columns * (rows.sum() / max(float(columns.sum()), 1e-9))
        pair = domain.project(known[0][1:] + known[1][1:]) if known[0] != known[1] else None
        names = pair.columns if pair is not None else ("one", "other")
        together = rake(
            together, names, [(names[:1], rows), (names[1:], columns)], rounds=_RAKING_ROUNDS
        )
        found.append(Table(table.domain, np.column_stack([together, alone])))
    return tuple(found)


def implied_by_size(domain: Domain, tables: Sequence[Table]) -> tuple[Table, ...]:
    """Return what pairs imply about their dependence in households of each size.

    Tables of pair rows count each of the s members of a household as 1 / s. So the number of
    persons in a cell also depends on the sizes of their households, that is, on the joint table
    with `members`. If that was not measured, it is the one of maximum entropy, given the three
    pairs.

    Args:
        domain: Domain of pair rows.
        tables: Fitted tables.
    """
    linked = domain.linked
    assert linked is not None
    fitted = {table.clique: table for table in tables}
    found = []
    for pair in fitted:
        about = any(name in linked.person_columns for name in pair) and not set(pair) & set(
            linked.others
        )
        if len(pair) != 2 or MEMBERS in pair or not about:
            continue
        clique = tuple(name for name in domain.columns if name in (*pair, MEMBERS))
        smaller = [tuple(n for n in clique if n in (MEMBERS, name)) for name in pair]
        known = [each for each in (pair, *smaller) if each in fitted]
        if clique in fitted or len(known) < 3 or domain.size(clique) > _MOST_IMPLIED:
            continue
        margins = [(each, fitted[each].values) for each in known]
        even = np.ones(domain.project(clique).sizes)
        table = rake(even, clique, margins, rounds=_RAKING_ROUNDS)
        found.append(Table(domain.project(clique), table))
    return tuple(found)


def _places(names: Sequence[str], clique: Clique) -> tuple[int, ...]:
    return tuple(names.index(name) for name in clique)


def arrays(listed: Listed | ListedPairs | CountedMembers) -> tuple[NDArray[Any], ...]:
    """Return the arrays of a listing, for the compiled loops."""
    return tuple(getattr(listed, each.name) for each in fields(listed))
