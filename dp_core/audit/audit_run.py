"""The audit: releases in memory on tiny files, each charge compared on neighbouring files."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any, Literal

import numpy as np

from dp_core.audit.audited_session import AuditedCounter, AuditedSession, BestPairs
from dp_core.audit.configurations import Configuration, configurations, plan_of
from dp_core.audit.frozen_noise import FrozenNoise
from dp_core.audit.neighbour_files import BrokenCoding, Pair
from dp_core.audit.report import HOUSEHOLDS, UNITS, Findings, unit_name
from dp_core.audit.tiny_files import TinyFiles
from dp_core.audit.tiny_households import TinyHouseholds
from dp_core.audit.tiny_panels import FORMS, TinyPanels
from dp_core.client.curator import Curator
from dp_core.errors import ReleaseError
from dp_core.kernel.codes import Codes
from dp_core.kernel.counting.marginal import Counter
from dp_core.kernel.document import ProtectedUnit
from dp_core.kernel.kernel import Kernel
from dp_core.kernel.privacy import Relation
from dp_core.kernel.questions.table_distance import TableChecks
from dp_core.plan.plan import Plan
from dp_core.plan.procedure import ask_all
from dp_core.schema.definition import Column
from dp_core.schema.grid import Coarsening
from dp_core.schema.linked.linked_tables import LinkedTables
from dp_core.schema.rules.column_rules import ColumnRule
from dp_core.schema.structure.structural_zeros import StructuralZeros
from dp_core.tables.coarse_counter import CoarseCounter

EPSILONS = ("4", "400")
"""Each release is made with one of them in turn: with the larger, other tables are selected, and
interactions."""
DELTAS = ("0", "1e-6")
Size = Literal["quick", "full"]
SEED = 1
_TRIES = {"quick": 4, "full": 60}
_BASES = {"quick": 1, "full": 2}
Progress = Callable[[float, str], None]


def audit(
    size: Size = "full",
    *,
    chosen: Sequence[Configuration] | None = None,
    units: Sequence[Relation] = (*UNITS, *HOUSEHOLDS),
    seed: int = SEED,
    progress: Progress = lambda _done, _name: None,
) -> Findings:
    """Audit every charge of many releases; return how close each bound came.

    Args:
        size: `quick` makes every release for one unit of privacy and one guarantee, in turn.
        chosen: Releases to make; None for all of `configurations`.
        units: Units of privacy and neighbouring relations; households are those of linked tables.
        seed: Of frozen noise and search; the same seed finds the same.
        progress: Called with the part that is done, and the name of a release.
    """
    findings = Findings(complete=size == "full" and chosen is None)
    findings.violations += broken_panels(units)
    asked = [each for each in (chosen or configurations()) if each.asks]
    cases = list(_cases(asked, units, size))
    closest: dict[Any, BestPairs] = {}
    for number, (configuration, relation, epsilon, deltas) in enumerate(cases):
        name = f"{configuration.name}; {unit_name(relation)}; epsilon {epsilon}"
        progress(number / len(cases), name)
        plans = (plan_of(configuration, relation, epsilon=epsilon, delta=each) for each in deltas)
        plan = next(filter(None, plans), None)
        if plan is None:
            findings.refused.append(f"{name}; delta {' or '.join(deltas)}")
            continue
        name += f"; delta {float(plan.spec.privacy.delta):g}"
        audit_release(plan, findings, name=name, size=size, seed=seed + number, closest=closest)
    return findings


def broken_panels(units: Sequence[Relation] = UNITS) -> list[str]:
    """Return what is wrong with the records of neighbouring panels, in which a person is a record.

    Args:
        units: Units of privacy and relations; only persons with one record are audited.
    """
    broken = []
    for relation in units:
        if relation.max_rows > 1 or relation.shares > 1:
            continue
        for form in FORMS:
            try:
                TinyPanels(form, relation, SEED).pairs(form)
            except BrokenCoding as error:
                broken.append(f"{error} In panels; {unit_name(relation)}.")
    return broken


def audit_release(
    plan: Plan,
    findings: Findings,
    *,
    name: str,
    size: Size,
    seed: int,
    closest: dict[Any, BestPairs],
) -> None:
    """Audit every charge of one release, made on several tiny files.

    Args:
        plan: Plan of the release; its schema has the columns of the tiny files.
        findings: Where the comparisons are added.
        name: Name of the release, for people.
        size: How many files it is made on, and how long each charge is searched.
        seed: Of frozen noise and search.
        closest: The best pairs of releases before, by schema and unit of privacy; added to.
    """
    schema, privacy = plan.spec.schema.stored, plan.spec.privacy
    relation = privacy.relation
    try:
        files, pairs = _coded_pairs(
            schema.columns, schema.zeros, schema.rules, schema.unit, schema.linked, relation
        )
    except BrokenCoding as error:
        findings.violations.append(f"{error} In {name}.")
        return
    names = list(pairs)
    turn = [names[(seed + step * 3) % len(names)] for step in range(_BASES[size])]
    for number, base in enumerate(dict.fromkeys(turn)):
        findings.releases += 1
        # Under replace-one the number of units is public, so all pairs of a release have as many.
        public = len(files[base]) if relation.neighbours == "replace-one" else None
        session = AuditedSession(
            plan.currency,
            privacy.neighbours,
            max_rows=privacy.max_rows,
            shares=privacy.shares,
            schema=schema,
            counter=AuditedCounter(schema.domain, files[base], relation, schema.linked),
            pairs=_audited_pairs(pairs, base, relation),
            closest=closest.setdefault((schema.columns, schema.rules, relation, public), {}),
            base=files[base],
            noise=FrozenNoise(seed + number),
            findings=findings,
            where=f"{name}; made on {base}",
            tries=_TRIES[size],
            seed=seed + number,
        )
        _release(plan, session, seed + number)


@cache
def _coded_pairs(
    columns: tuple[Column, ...],
    zeros: StructuralZeros,
    rules: tuple[ColumnRule, ...],
    unit: ProtectedUnit,
    linked: LinkedTables | None,
    relation: Relation,
) -> tuple[dict[str, tuple[Codes, ...]], dict[str, list[Pair]]]:
    """Return the tiny files and their neighbours by name; most releases have the same."""
    if linked is not None:
        homes = TinyHouseholds(columns, zeros, rules, unit, linked, relation, SEED)
        return (
            {name: homes.code(households) for name, households in homes.named.items()},
            {name: homes.pairs(name) for name in homes.named},
        )
    files = TinyFiles(columns, zeros, unit, relation, SEED, rules)
    return (
        {name: files.code(units) for name, units in files.named.items()},
        {name: files.pairs(name) for name in files.named},
    )


def _cases(
    asked: Sequence[Configuration], units: Sequence[Relation], size: Size
) -> Iterator[tuple[Configuration, Relation, str, tuple[str, ...]]]:
    """Yield each release with a unit of privacy, epsilon, and the deltas of which one is taken."""
    for number, configuration in enumerate(asked):
        possible = [each for each in units if (each.shares > 1) == configuration.linked]
        if size == "quick" and possible:
            turn = number // len(possible)
            deltas = DELTAS if turn % 2 else DELTAS[::-1]
            yield configuration, possible[number % len(possible)], EPSILONS[turn // 2 % 2], deltas
            continue
        for turn, (relation, delta) in enumerate(itertools.product(possible, DELTAS)):
            # Over all releases, every unit has each epsilon with each delta.
            epsilon = EPSILONS[(number + turn + turn // 2) % 2]
            yield configuration, relation, epsilon, (delta,)


def _audited_pairs(pairs: dict[str, list[Pair]], base: str, relation: Relation) -> list[Pair]:
    """Return the pairs to compare, those of the base first.

    Under replace-one the number of units is public, and a question may depend on it.
    """
    if relation.neighbours == "replace-one":
        number = len(pairs[base][0].one) if pairs[base] else 0
        return [each for group in pairs.values() for each in group if len(each.one) == number]
    others = [each for name, group in pairs.items() if name != base for each in group[::3]]
    return [*pairs[base], *others]


def _release(plan: Plan, session: AuditedSession, seed: int) -> None:
    """Make a release up to its last charge, and compare what was read without one."""
    try:
        answered = ask_all(plan, session.counter, session)
        _check(answered.plan, session, seed)
    except ReleaseError as error:
        # It ends with a sentence, for example because the file is too small for the method. What
        # it charged before was audited.
        session.findings.refused.append(f"{session.where}: {error.message}")
    for what in session.counter.uncharged:
        session.findings.violations.append(f"{what} were read without a charge, in {session.where}")
    if session.spent() > plan.currency.limit:
        session.findings.violations.append(f"More was charged than planned, in {session.where}.")


def _check(plan: Plan, session: AuditedSession, seed: int) -> None:
    """Ask the charged checks, with any reference counts in the place of the sets' counts."""
    tables, cost = plan.spec.checks, plan.costs["checks"]
    if not tables or not cost:
        return
    counter: Counter = session.counter
    domain = plan.spec.schema.domain
    if plan.spec.schema.coarse is not None:
        coarsening = Coarsening(plan.spec.schema)
        counter, domain = CoarseCounter(counter, coarsening), coarsening.domain
    rng = np.random.default_rng(seed)
    references = tuple(
        rng.integers(0, 9, domain.project(table).sizes, dtype=np.int64) for table in tables
    )
    curator = Curator(Kernel(domain, counter, session))
    curator.check("distances", TableChecks(tables, references), cost)
