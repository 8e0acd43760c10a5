"""A release in memory: what `dp_core.release` returns."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from dp_core.analysis.notebook.open_release import OpenRelease
from dp_core.analysis.notebook.plan_page import PlanPage, privacy_words
from dp_core.analysis.notebook.statement import columns_words, tables_words
from dp_core.bundle.in_memory import NOT_PROTECTED, MadeInMemory, save_in_memory
from dp_core.bundle.private_draws import private_draws
from dp_core.bundle.reading import Bundle
from dp_core.bundle.statement.release_json import origin_of, plain
from dp_core.inference.combine import known_rule
from dp_core.inference.combining_rules import inference_statement
from dp_core.methods.reconstruction.estimates.pooled_parts import pooled_records
from dp_core.plan.in_memory.drawn_sets import DrawnSet, drawn_set
from dp_core.plan.in_memory.stated_plan import NAME
from dp_core.plan.procedure import Outcome
from dp_core.schema.definition import Schema
from dp_core.schema.privacy import Relation
from dp_core.text.pages.number_texts import plural
from dp_core.text.pages.page import Fact, Page, Sentence
from dp_core.wall.accounting.currency import Currency
from dp_core.wall.ledger.session import MemorySession
from dp_core.wall.released import Records


@dataclass(frozen=True, slots=True)
class MemoryFacts:
    """What analyses must know about a release in memory (`dp_core.bundle.reading.Facts`)."""

    name: str
    relation: Relation
    currency: Currency
    plan: Mapping[str, Any]
    schema: Schema
    sets: int
    rows: tuple[int, ...]
    records: int | None
    off: tuple[float, ...]


class MemoryRelease(OpenRelease):
    """A release made in memory, for public data, tests and teaching.

    It has the noise, the methods and the answers of a real release, but no ledger paid for it, so
    it protects nobody.

    Attributes:
        sets: The synthetic sets as pandas frames; `sets[0]` is set 1.
        tables: The noisy tables as pandas frames, by their columns.
        plan: What was measured, with which noise.
    """

    def __init__(self, outcome: Outcome) -> None:
        self._outcome = outcome
        spec = outcome.plan.spec
        drawn = [drawn_set(outcome.plan, outcome.models, n) for n in range(1, spec.sets + 1)]
        super().__init__(_as_bundle(outcome, drawn))

    @cached_property
    def plan(self) -> PlanPage:
        """What was measured, with which noise, and the budget of each stage."""
        return PlanPage(self._outcome.plan)

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Write sets, noisy tables, codebook and a statement to a new folder, and return it.

        The folder is no bundle: its statement, `in-memory.json`, says that no ledger paid.

        Args:
            folder: A new or empty folder.

        Raises:
            BadInput: if the folder is neither new nor empty.
            StageFailed: if a file cannot be written.
        """
        spec, bundle = self._outcome.plan.spec, self._bundle
        assert bundle.in_memory is not None
        made = MadeInMemory(
            schema=spec.schema,
            privacy=spec.privacy,
            plan=self._outcome.plan.document(),
            released=self._outcome.released,
            sets=bundle.in_memory,
            inference=inference_statement(spec.mode, spec.sets, origin=bundle.origin),
            records=bundle.records,
        )
        return save_in_memory(Path(folder), made)

    def page(self) -> Page:
        """Return what the release is and is not, its noise, its tables and its sets."""
        spec, bundle = self._outcome.plan.spec, self._bundle
        return (
            Sentence(f"{spec.schema.title} (release in memory, method {spec.method})"),
            Fact("Warning", NOT_PROTECTED, warns=True),
            Fact(
                "Noise",
                f"as in a release with {privacy_words(spec.privacy)}; no privacy guarantee",
            ),
            Fact("Tables", tables_words(len(self.tables), len(bundle.measured))),
            Fact("Sets", _sets_words(bundle, spec.mode)),
            *(
                (Fact("Declared", "; ".join(bundle.declared_texts)),)
                if bundle.declared_texts
                else ()
            ),
            Fact("Columns", columns_words(spec.schema)),
        )


def _sets_words(bundle: Bundle, mode: str) -> str:
    sets = bundle.claims.sets
    covers = inference_statement(mode, sets, origin=bundle.origin)["covers"]
    if not sets:
        return str(covers)
    rows = sorted(set(bundle.claims.rows))
    number = f"{rows[0]:,}" if len(rows) == 1 else f"{rows[0]:,} to {rows[-1]:,}"
    what = "rows" if bundle.claims.schema.linked is None else "households"
    size = f"{plural(sets, 'set')} of {number} {what} each ({mode})."
    return f"{size} Intervals of `infer` cover: {covers}"


def _as_bundle(outcome: Outcome, drawn: list[DrawnSet]) -> Bundle:
    rows, plan, spec = outcome.rows, outcome.plan, outcome.plan.spec
    document = plain(plan.document())
    origin = origin_of(document)
    if outcome.models and not spec.schema.totals:
        fitted = [model.rows for model in outcome.models.values()]
        records = round(sum(fitted) / len(fitted))
    else:
        records = pooled_records(spec.schema.domain, outcome.released) if rows is None else rows
    facts = MemoryFacts(
        name=NAME,
        relation=spec.privacy.relation,
        currency=plan.currency,
        plan=document,
        schema=spec.schema,
        sets=spec.sets,
        rows=tuple(each.rows for each in drawn),
        records=rows,
        off=tuple(each.off for each in drawn if each.off is not None),
    )
    stated = inference_statement(spec.mode, spec.sets, origin=origin)
    charges = outcome.session.charges if isinstance(outcome.session, MemorySession) else []
    return Bundle(
        folder=None,
        claims=facts,
        rule=known_rule(str(stated["rule"])) if spec.sets else None,
        records=float(records),
        measured=tuple(item for item in outcome.released if not isinstance(item, Records)),
        origin=origin,
        draws=private_draws(
            ((grant.step.event, grant.step.asks) for grant in charges), spec.schema
        ),
        in_memory=tuple(each.records for each in drawn),
    )
