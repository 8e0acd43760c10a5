"""A session that puts every paid question to neighbouring files, and a counter for many files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from dp_core.accounts.memory_session import MemorySession
from dp_core.audit.changes import Mismatch, used_bounds
from dp_core.audit.frozen_noise import Exact, FrozenNoise, Values
from dp_core.audit.neighbour_files import Pair
from dp_core.audit.report import CLOSE, Findings, question_of, unit_name
from dp_core.audit.tiny_households import household_like
from dp_core.confidential.memory_counter import MemoryCounter
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.dataset import Dataset
from dp_core.kernel.counting.domain import Clique, Domain
from dp_core.kernel.counting.household_counter import HouseholdCounter
from dp_core.kernel.counting.marginal import Counter, Marginal
from dp_core.kernel.ledger.session import Draw
from dp_core.kernel.mechanisms.grant import Grant, Step
from dp_core.kernel.privacy import Relation
from dp_core.schema.definition import Schema
from dp_core.schema.linked.linked_tables import LinkedTables

Units = tuple[Codes, ...]
BestPairs = dict[tuple[str, str], tuple[float, Pair]]
LEAST_TRIES = 2
"""Pairs that are tried for each charge even if another release reached the bound."""
MOST_CACHED = 400
MOST_UNITS = 200
"""Units of a file beyond which the search adds no more."""


class AuditedCounter:
    """Counts the file that is shown at the moment; each question is put to many files.

    Only a paid question may look at the data. Anything else must be the same for all files: the
    number of rows (of households), where it is public.
    """

    def __init__(
        self, domain: Domain, base: Units, relation: Relation, linked: LinkedTables | None = None
    ) -> None:
        """Create the counter.

        Args:
            domain: Of the codes.
            base: File that is shown first.
            relation: Of the release.
            linked: The two tables, if the codes are pair rows of households; counts are in shares
                then. None by default.
        """
        self._domain, self._relation, self._linked = domain, relation, linked
        self._cached: dict[tuple[bytes, ...], Counter] = {}
        self._base = self._shown = self._of(base)
        self._charged = False
        self.uncharged: list[str] = []
        """What was read without a charge."""

    @property
    def shares(self) -> int:
        """Units of the counts: 1/`shares` of a record."""
        return 1 if self._linked is None else self._linked.shares

    @contextmanager
    def charge(self) -> Iterator[None]:
        """Allow questions, while it is entered."""
        self._charged = True
        try:
            yield
        finally:
            self._charged, self._shown = False, self._base

    def show(self, units: Units) -> None:
        """Take another file."""
        self._shown = self._of(units)

    def count(self, cliques: Sequence[Clique]) -> Mapping[Clique, Marginal]:
        """Return the exact marginal of each clique."""
        self._note(cliques)
        return self._shown.count(cliques)

    def observed(self, clique: Clique) -> tuple[Codes, NDArray[np.int64]]:
        """Return the cells of a clique that hold a record, and how many each holds."""
        self._note([clique])
        return self._shown.observed(clique)

    def _note(self, cliques: Sequence[Clique]) -> None:
        """Note a question without a charge, unless it is for the number of rows and that public."""
        if not self._charged and not (self._relation.rows_public and {*cliques} == {()}):
            self.uncharged.append(f"Tables of {[*cliques]}")

    def _of(self, units: Units) -> Counter:
        key = tuple(unit.tobytes() for unit in units)
        found = self._cached.get(key)
        if found is None:
            none = np.zeros((0, len(self._domain)), self._domain.code_type)
            rows = np.concatenate([none, *units])
            data = Dataset(self._domain, np.ascontiguousarray(rows.T))
            found = MemoryCounter(data)
            if self._linked is not None:
                found = HouseholdCounter(found, self._linked)
            if len(self._cached) < MOST_CACHED:
                self._cached[key] = found
        return found


@dataclass
class AuditedSession(MemorySession):
    """A session in memory that audits each charge, and answers with frozen noise.

    A release that pays with it makes its choices by the answers on one file. So the questions, and
    what they are adapted to, are the same for every file that they are put to.

    Attributes:
        schema: Schema of the codes.
        counter: Counter that the release asks.
        pairs: Neighbouring files.
        closest: The pair that came closest to a bound so far, by kind of question, with its ratio;
            releases of the same schema and unit share it.
        base: File by which the release goes on.
        noise: Frozen noise of the answers.
        findings: Where the comparisons are added.
        where: Name of the release, for people.
        tries: Further pairs that are tried for each charge whose bound was not reached.
        seed: Of the search.
    """

    schema: Schema = field(kw_only=True)
    counter: AuditedCounter = field(kw_only=True)
    pairs: Sequence[Pair] = field(kw_only=True)
    closest: BestPairs = field(kw_only=True)
    base: Units = field(kw_only=True)
    noise: FrozenNoise = field(kw_only=True)
    findings: Findings = field(kw_only=True)
    where: str = field(kw_only=True)
    tries: int = field(kw_only=True)
    seed: int = field(kw_only=True)

    def __post_init__(self) -> None:
        self._rng = np.random.default_rng(self.seed)
        self._unit = unit_name(self.relation)
        self._best: BestPairs = {}

    def perform(
        self, batch: str, steps: Sequence[Step], draw: Draw
    ) -> tuple[tuple[Grant, Values], ...]:
        """Charge, and audit before the results with frozen noise are returned."""

        def audited(grants: Sequence[Grant]) -> Sequence[Values]:
            with self.counter.charge():
                return self._audit(grants, draw)

        return super().perform(batch, steps, audited)

    def _audit(self, grants: Sequence[Grant], draw: Draw) -> Sequence[Values]:
        self._compare(grants, draw, Pair("a file and itself", self.base, self.base), counted=True)
        names = dict.fromkeys(question_of(grant.step) for grant in grants)
        carried = [self.closest[name][1] for name in names if name in self.closest]
        for pair in (*self.pairs, *carried):
            self._compare(grants, draw, pair)
        for name in names:
            self._search(name, grants, draw)
        self.counter.show(self.base)
        _, results = self.noise.ask(draw, grants)
        return results

    def _compare(
        self, grants: Sequence[Grant], draw: Draw, pair: Pair, *, counted: bool = False
    ) -> None:
        """Compare the exact answers on two files, and keep the pair if it is the best so far.

        Args:
            grants: Of one batch.
            draw: Asks their questions.
            pair: The files.
            counted: Whether to count the charges.
        """
        asked: list[list[Exact]] = []
        for units in (pair.one, pair.other):
            self.counter.show(units)
            asked.append(self.noise.ask(draw, grants)[0])
        best: dict[tuple[str, str], float] = {}
        for grant, one, other in zip(grants, *asked, strict=True):
            step, name = grant.step, question_of(grant.step)
            where = f"{self.where}; {step.stage}: {step.name}; {pair.name}"
            try:
                found = used_bounds(step.event, step.shape, one, other)
            except Mismatch as error:
                self.findings.violations.append(f"{error} In {where}.")
                continue
            if counted:
                self.findings.charged(step, [each.bound for each in found], self._unit)
            for each in found:
                self.findings.add(step, each, self._unit, where, pair)
                best[name] = max(best.get(name, 0.0), each.ratio)
        for name, ratio in best.items():
            if ratio >= self._best.get(name, (0.0,))[0] and pair.one is not pair.other:
                self._best[name] = ratio, pair
                if ratio > self.closest.get(name, (0.0,))[0]:
                    self.closest[name] = ratio, pair

    def _search(self, name: tuple[str, str], grants: Sequence[Grant], draw: Draw) -> None:
        """Try more pairs, each a change of the best one so far, while a bound is not reached."""
        for number in range(self.tries):
            if name not in self._best or (number >= LEAST_TRIES and self._is_reached(name)):
                return
            self._compare(grants, draw, self._changed(self._best[name][1]))

    def _is_reached(self, name: tuple[str, str]) -> bool:
        """Return whether every bound of a kind was reached, by this or another release."""
        of_kind = [
            found.ratio
            for kind, found in self.findings.closest.items()
            if (kind.question, kind.mechanism, kind.unit) == (*name, self._unit)
        ]
        return bool(of_kind) and min(of_kind) >= CLOSE

    def _changed(self, pair: Pair) -> Pair:
        """Return other neighbours: rows of both files change, or rows of the unit that differs."""
        one, other = pair.one, pair.other
        replaced = self.relation.neighbours == "replace-one"
        if replaced:
            common, own = list(one[1:]), [one[0], other[0]]
        elif len(one) < len(other):
            common, own = list(one), [other[-1]]
        else:
            common, own = list(other), [one[0]]
        for _ in range(int(self._rng.integers(1, 4))):
            if self._rng.random() < 0.5:
                place = int(self._rng.integers(len(own)))
                alike = bool(common) and self._rng.random() < 0.2
                copied = common[int(self._rng.integers(len(common)))] if alike else own[place]
                own[place] = copied if alike and len(copied) else self._unit_like(own[place])
            else:
                common = self._common_like(common)
        if replaced:
            return Pair("a search", (own[0], *common), (own[1], *common))
        return Pair("a search", tuple(common), (*common, own[0]))

    def _common_like(self, common: list[Codes]) -> list[Codes]:
        """Return common units with one changed, and under add-remove more or fewer of them."""
        found = list(common)
        what = self._rng.random()
        fixed = self.relation.neighbours == "replace-one"
        if found and (what < 0.5 or fixed):
            place = int(self._rng.integers(len(found)))
            copied = found[int(self._rng.integers(len(found)))]
            if self._rng.random() < 0.5:
                found[place] = copied
            else:
                found[place] = self._unit_like(found[place])
        elif found and what < 0.7:
            del found[int(self._rng.integers(len(found)))]
        elif not fixed and len(found) < MOST_UNITS:
            none = np.zeros((1, 0), self.schema.domain.code_type)
            new = self._unit_like(found[0] if found else none)
            found += [new] * int(self._rng.choice([1, 1, 2, 8, 32]))
        return found

    def _unit_like(self, unit: Codes) -> Codes:
        """Return a unit of possible rows: with some codes changed, or another number of rows."""
        if self.schema.linked is not None:
            return household_like(self.schema, unit, self._rng)
        domain, rng = self.schema.domain, self._rng
        rows = len(unit) if rng.random() < 0.8 else int(rng.integers(1, self.max_rows + 1))
        rows = max(rows, 1)
        sizes = np.array(domain.sizes)
        for _ in range(20):
            fresh = rng.integers(0, sizes, (rows, len(sizes)))
            ends = rng.random((rows, len(sizes)))
            fresh = np.where(ends < 0.2, 0, np.where(ends > 0.8, sizes - 1, fresh))
            if unit.shape[1] and len(unit) and rng.random() < 0.7:
                kept = rng.random((rows, len(sizes))) < 0.6
                fresh = np.where(kept, unit[np.arange(rows) % len(unit)], fresh)
            if rng.random() < 0.5:
                fresh = np.repeat(fresh[:1], rows, axis=0)
            codes = fresh.astype(domain.code_type)
            data = Dataset(domain, np.ascontiguousarray(codes.T))
            if not self.schema.zeros.violations(data).any():
                return codes
        return unit if unit.shape[1] else np.zeros((rows, len(sizes)), domain.code_type)
