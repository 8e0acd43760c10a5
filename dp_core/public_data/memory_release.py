"""A release in memory: what `dp_core.release` returns, and how it is saved.

A saved release has the sets, the noisy tables and a codebook in the form of a bundle. Its statement
is `in-memory.json`, not `release.json`: no ledger paid, so there are no receipts, and nothing in it
claims that the data are protected.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dp_core.accounts.memory_session import MemorySession
from dp_core.analysis.notebook.open_bundle import OpenRelease
from dp_core.analysis.planned.plan_page import PlanPage, privacy_words
from dp_core.bundle.best_set import BEST, BestSet, set_metadata
from dp_core.bundle.files.codebook import CODEBOOK, MARGINALS, codebook, set_paths
from dp_core.bundle.files.marginals_file import write_marginals
from dp_core.bundle.files.parquet_file import write_synthetic
from dp_core.bundle.reading import Bundle, private_draws
from dp_core.bundle.statement.release_json import (
    IN_MEMORY,
    exact,
    file_record,
    origin_of,
    render,
    software_versions,
)
from dp_core.bundle.verification.claims import Facts
from dp_core.bundle.writer import check_destination, hidden_folder, write_file
from dp_core.client.released import Records
from dp_core.inference.combine import known_rule
from dp_core.inference.combining_rules import inference_statement
from dp_core.methods.reconstruction.estimates.pooled_parts import pooled_records
from dp_core.methods.reconstruction.reconstructor import Model
from dp_core.methods.replicates.survey_weights import Calibrator
from dp_core.plan.plan import Plan
from dp_core.plan.procedure import Outcome, SetDrawing, decode_piece, tables_of_set
from dp_core.plan.reading.spec_file import IN_MEMORY as NAME
from dp_core.text.pages.page import Fact, Page, Sentence

if TYPE_CHECKING:
    from dp_core.schema.linked.linked_decoding import TwoTables

FORMAT_NAME = "dp-release in memory"
FORMAT_VERSION = 1
NOT_PROTECTED = (
    "This release was made in memory from public data, for tests and teaching. No ledger paid for"
    " it. It is not a differentially private release and protects nobody."
)
"""What a release in memory says about itself wherever it is shown or saved."""
SOURCE = "Public data, from which this release was made in memory; no ledger paid for it"


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
        super().__init__(_as_bundle(outcome))

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
        place = Path(folder).absolute()
        check_destination(place)
        with hidden_folder(place) as partial:
            self._fill(partial)
        return place

    def page(self) -> Page:
        """Return what the release is and is not, its noise, its tables and its sets."""
        spec = self._outcome.plan.spec
        return (
            Sentence(f"{spec.schema.title} (release in memory, method {spec.method})"),
            Fact("Warning", NOT_PROTECTED, warns=True),
            Fact(
                "Noise",
                f"as in a release with {privacy_words(spec.privacy)}; no privacy guarantee",
            ),
            *self._facts_of_sets(self._about_sets()),
        )

    def _fill(self, folder: Path) -> None:
        bundle, schema = self._bundle, self._bundle.claims.schema
        created = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        names: list[str] = []
        for number, one in (bundle.in_memory or {}).items():
            paths = set_paths(schema, number)
            for name, table in zip(paths, tables_of_set(one), strict=True):
                about = set_metadata(NAME, number, bundle.claims.sets)
                write_synthetic(folder / name, [table], about)
            names += paths
        write_marginals(folder / MARGINALS, bundle.measured, schema)
        files = {name: file_record(folder / name) for name in (*names, MARGINALS)}
        release = {"name": NAME, "version": 1, "created": created}
        described = codebook(schema, files, release, bundle.claims.sets, SOURCE)
        described["description"] = " ".join(filter(None, (NOT_PROTECTED, schema.description)))
        write_file(folder / CODEBOOK, render(described))
        files[CODEBOOK] = file_record(folder / CODEBOOK)
        privacy = self._outcome.plan.spec.privacy
        stated = {
            "format": {"name": FORMAT_NAME, "version": FORMAT_VERSION},
            "in_words": NOT_PROTECTED,
            "release": {"title": schema.title, "created": created},
            "ledger": None,
            "guarantee": None,
            "noise_calibrated_to": {
                "epsilon": exact(privacy.epsilon),
                "delta": exact(privacy.delta),
                "neighbours": privacy.neighbours,
                **privacy.protects.stated,
            },
            "method": {"plan": bundle.claims.plan, "schema": dict(schema.document)},
            "software": dict(sorted(software_versions().items())),
            **self._about_sets(),
            "files": {path: files[path] for path in sorted(files)},
        }
        write_file(folder / IN_MEMORY, render(stated))

    def _about_sets(self) -> dict[str, Any]:
        """Return what a statement says about the sets and about combining them."""
        spec, bundle = self._outcome.plan.spec, self._bundle
        made = {number: tables_of_set(one) for number, one in (bundle.in_memory or {}).items()}
        sets = [tables for number, tables in made.items() if number != BEST]
        persons = {"persons": [two[1].num_rows for two in sets]} if spec.schema.linked else {}
        best = bundle.claims.best
        return {
            "sets": {
                "m": spec.sets,
                "mode": spec.mode,
                "rows": [tables[0].num_rows for tables in sets],
                **persons,
                **({"best": best.to_json()} if best else {}),
                "records": round(bundle.records, 3),
            },
            "inference": inference_statement(spec.mode, spec.sets, origin=bundle.origin),
        }


@dataclass(frozen=True, slots=True, eq=False)
class DrawnSet:
    """A synthetic set in memory.

    Attributes:
        records: Its rows, in the schema's labels and units; of linked tables both tables.
        off: Largest relative deviation of its weights from a public total; None without totals.
    """

    records: pa.Table | TwoTables
    off: float | None

    @property
    def rows(self) -> int:
        """Number of records; of linked tables, of households."""
        return int(tables_of_set(self.records)[0].num_rows)

    @property
    def about(self) -> BestSet:
        """What the statement says of it as the best set."""
        _, *others = tables_of_set(self.records)
        return BestSet(self.rows, int(others[0].num_rows) if others else None, self.off)


def drawn_set(plan: Plan, models: Mapping[int, Model], number: int) -> DrawnSet:
    """Return a synthetic set; equal plans and models give the set that the pipeline writes.

    Args:
        plan: Plan of the release, with privately chosen bins and levels.
        models: Models by number of the set; 0 is the shared one.
        number: Number of the set, from 1; 0 is the best set.
    """
    schema = plan.spec.schema
    drawing = SetDrawing(plan, models, number)
    if schema.linked is not None:
        # Households are drawn in one piece.
        return DrawnSet(decode_piece(plan, drawing.draw(0), number, 0), None)
    tables = [
        decode_piece(plan, drawing.draw(position), number, position)
        for position in range(len(drawing.sizes))
    ]
    off = None
    if schema.calibration:
        calibrator = Calibrator(schema)
        for table in tables:
            calibrator.add(table)
        off = calibrator.settle()
        tables = [calibrator.apply(table) for table in tables]
    return DrawnSet(pa.concat_tables(tables).unify_dictionaries().combine_chunks(), off)


def _as_bundle(outcome: Outcome) -> Bundle:
    plan, spec = outcome.plan, outcome.plan.spec
    document = plan.document()
    origin = origin_of(document)
    made = {number: drawn_set(plan, outcome.models, number) for number in spec.set_numbers}
    drawn = [each for number, each in made.items() if number != BEST]
    if outcome.models and not spec.schema.totals:
        fitted = [model.rows for model in outcome.models.values()][-spec.sets :]
        records: float = round(sum(fitted) / len(fitted))
    elif outcome.rows is not None:
        records = outcome.rows
    else:
        records = pooled_records(spec.schema.domain, outcome.released)
    stated = inference_statement(spec.mode, spec.sets, origin=origin)
    charges = outcome.session.charges if isinstance(outcome.session, MemorySession) else []
    return Bundle(
        folder=None,
        claims=Facts(
            name=NAME,
            relation=spec.privacy.relation,
            currency=plan.currency,
            plan=document,
            schema=spec.schema,
            sets=spec.sets,
            rows=tuple(each.rows for each in drawn),
            records=outcome.rows,
            off=tuple(each.off for each in drawn if each.off is not None),
            best=made[BEST].about if BEST in made else None,
        ),
        rule=known_rule(str(stated["rule"])) if spec.sets else None,
        records=float(records),
        measured=tuple(item for item in outcome.released if not isinstance(item, Records)),
        origin=origin,
        draws=private_draws(
            ((grant.step.event, grant.step.asks) for grant in charges), spec.schema
        ),
        in_memory={number: each.records for number, each in made.items()},
    )
