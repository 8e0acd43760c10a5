"""An evaluation of a published release against its confidential file, for staff only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tasks.confidential.internal_inference import read_sample, result_or, unheard
from tasks.support.run_folder import INTERNAL_NOTICE, write_atomically

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from dp_core.client.released import Released
    from dp_core.confidential.code_store import CodeStore
    from dp_core.confidential.linked.linked_source import LinkedSource
    from dp_core.confidential.source import Source
    from dp_core.kernel.counting.dataset import Dataset
    from dp_core.lab.field_scores.file_scores import ScoredColumns
    from dp_core.lab.measures.table_errors import PairRows
    from dp_core.plan.plan import Plan
    from dp_core.schema.definition import Schema
    from dp_core.tables.household_rows import HouseholdRows

MOST_ATTACKED = 20_000
"""Records of the file, half of them members, of an attack audit."""
MOST_LEARNT = 5_000
"""Records from which classifiers learn, and a fifth of which tests them."""
_SEED = 20_261_129
_RESAMPLE_SEED = 20_261_130


@dataclass(frozen=True, kw_only=True)
class AskedEvaluation:
    """What is evaluated.

    Attributes:
        schema: Schema of the published sets.
        sets: Paths of the published sets.
        released: Everything that was measured.
        records: Public or estimated number of records.
        rows: Number of records if it is public, otherwise None.
        columns: Columns of the scores that need some.
        targets: Columns that classifiers predict.
        attacked: Plan whose method is attacked; None for no attacks.
    """

    schema: Schema
    sets: Sequence[Path]
    released: Sequence[Released]
    records: float
    rows: float | None
    columns: ScoredColumns
    targets: Sequence[str] = ()
    attacked: Plan | None = None


def write_evaluation(
    folder: Path, title: str, sections: Callable[[], dict[str, Any]], *, name: str
) -> Path:
    """Write an evaluation as an HTML page and as JSON, which only the owner can read.

    Args:
        folder: Internal folder of the run.
        title: Title of the schema.
        sections: Reads the confidential data and computes the sections (`file_sections`,
            `linked_sections`).
        name: Name of the two files, without suffix.

    Returns:
        The path of the page.

    Privacy:
        Nothing is charged, and nothing leaves the internal folder. Whether a score can be computed
        may depend on one record, so the same files are written whatever the data are, nothing is
        printed, and no error is raised because of them.
    """
    from dp_core.lab.evaluation.evaluation_page import as_html, as_json

    def write(found: dict[str, Any]) -> dict[str, bytes]:
        return {
            f"{name}.json": as_json(INTERNAL_NOTICE, title, found).encode(),
            f"{name}.html": as_html(INTERNAL_NOTICE, title, found).encode(),
        }

    def stop(how: str) -> dict[str, bytes]:
        return write({"scores": {"problem": f"The evaluation stopped {how}."}})

    # privacy: messages and imports of the first page happen here.
    pages = stop("before its end")
    with unheard():
        pages = result_or(lambda: write(sections()), lambda error: stop(f"with {error}"))
    for file, content in pages.items():
        write_atomically(folder / file, content)
    return folder / f"{name}.html"


def file_sections(work: Path, source: Source, asked: AskedEvaluation) -> dict[str, Any]:
    """Return the sections of a single file; its codes are written to `work`. CONFIDENTIAL."""
    from dp_core.lab.evaluation.release_scores import expected_noise, score_sets

    store = _store_codes(source, asked.schema, work / "evaluated")
    real = read_sample(store, asked.schema)
    # On a grid, everything is compared in the schema's own bins.
    own, columns = asked.schema.coarse or asked.schema, asked.columns
    sets = [_published_set(path, own) for path in asked.sets]

    def scores() -> dict[str, object]:
        noise = expected_noise(
            own, asked.released, columns.by, records=asked.records, rows=asked.rows
        )
        return score_sets(real, sets, own, asked=columns, noise=noise)

    found = {"scores": _or_reason(scores)}
    if asked.targets:
        found["classifiers"] = _or_reason(lambda: _classifiers(real, sets, asked))
    if asked.attacked is not None:
        plan = asked.attacked
        found["attacks"] = _or_reason(lambda: _attacks(work, source, store, plan, asked.schema))
    return found


def linked_sections(
    source: LinkedSource, schema: Schema, bundle: Path, sets: int
) -> dict[str, Any]:
    """Return the sections of linked tables and the sets of their bundle. CONFIDENTIAL."""
    from dp_core.bundle.files.linked_sets import codes_of_set, read_linked_set
    from dp_core.confidential.linked.linked_source import read_households
    from dp_core.lab.evaluation.release_scores import score_linked_sets
    from dp_core.tables.household_rows import pair_row_pieces

    linked = schema.linked

    def pieces(rows: HouseholdRows) -> PairRows:
        assert linked is not None
        return lambda: (piece for piece, *_ in pair_row_pieces(linked, schema.domain, rows))

    real = read_households(schema, source)
    households = real.sizes.size
    drawn = real.take(np.random.default_rng(_RESAMPLE_SEED).integers(0, households, households))
    published = [
        codes_of_set(schema, read_linked_set(bundle, schema, number))
        for number in range(1, sets + 1)
    ]
    return {
        "linked": score_linked_sets(
            schema.domain, pieces(real), [pieces(each) for each in published], pieces(drawn)
        )
    }


def _or_reason(section: Callable[[], dict[str, object]]) -> dict[str, object]:
    """Return a section, or why it could not be computed."""
    return result_or(section, lambda error: {"problem": f"This part stopped with {error}."})


def _store_codes(source: Source, schema: Schema, folder: Path) -> CodeStore:
    """Write the codes of the file, with the rows of each person that the release used."""
    from dp_core.confidential.code_store import RecodedStore
    from dp_core.confidential.coding import write_codes
    from dp_core.plan.chosen_domain import recoding

    stored = write_codes(source, schema.stored, folder)
    return RecodedStore(stored, recoding(schema)) if schema.recoded else stored


def _published_set(path: Path, schema: Schema) -> Dataset:
    """Return a published set in the codes of the schema."""
    import pyarrow.parquet as pq

    from dp_core.kernel.counting.dataset import Dataset
    from dp_core.schema.decoding import codes_of

    table = pq.read_table(path, columns=list(schema.domain.columns))
    codes = [codes_of(one, table.column(one.name).combine_chunks()) for one in schema.columns]
    return Dataset(schema.domain, np.stack(codes))


def _classifiers(real: Dataset, sets: Sequence[Dataset], asked: AskedEvaluation) -> dict[str, Any]:
    from dp_core.lab.comparison.judging import seen_by_classifiers, split
    from dp_core.lab.field_scores.file_scores import sample_records
    from dp_core.lab.measures.classification import misclassification, svm_accuracy

    real, first = (sample_records(one, most=MOST_LEARNT) for one in (real, sets[0]))
    _, test = split(real, 0.0)
    learners = [first, seen_by_classifiers(real)]
    own = asked.schema.coarse or asked.schema
    nominal = [one.name for one in own.columns if not one.type.ordered]
    targets = []
    for target in asked.targets:
        given = [(one, test, target) for one in learners]
        trees = [1 - misclassification(*each, nominal=nominal) for each in given]
        machines = [svm_accuracy(*each, nominal=nominal) for each in given]
        most = np.bincount(test.column(target)).max() / test.rows
        targets.append(
            {
                "target": target,
                "trees": {"set": trees[0], "file": trees[1]},
                "svm": {"set": machines[0], "file": machines[1]},
                "most_frequent": float(most),
            }
        )
    return {"records": real.rows, "targets": targets}


def _attacks(
    work: Path, source: Source, store: CodeStore, plan: Plan, schema: Schema
) -> dict[str, object]:
    """Carry out the plan in memory on half of the records, and attack the result.

    Under add-remove each record is a member with probability 1/2, independently, so that the file
    with it and the file without it are neighbours; under replace-one exactly half are.
    """
    from dp_core.confidential.coding import write_codes
    from dp_core.confidential.memory_counter import MemoryCounter
    from dp_core.kernel.counting.dataset import Dataset
    from dp_core.lab.attacks.attack_audit import attack_audit
    from dp_core.lab.attacks.membership import permitted_advantage
    from dp_core.lab.evaluation.release_scores import code_values
    from dp_core.plan.procedure import carry_out, sample
    from dp_core.schema.grid import Coarsening

    stored_schema = plan.spec.schema.stored
    stored = write_codes(source, stored_schema, work / "attacked")
    # The same seed and number of rows: both samples have the same records.
    fine = read_sample(stored, stored_schema, most=MOST_ATTACKED, coarse=False)
    real = read_sample(store, schema, most=MOST_ATTACKED)
    rng = np.random.default_rng(_SEED)
    inside = rng.random(real.rows) < 0.5
    if plan.spec.privacy.relation.rows_public:
        inside = rng.permutation(real.rows) < real.rows // 2
    order = np.concatenate([np.flatnonzero(inside), np.flatnonzero(~inside)])

    def make_file(places: NDArray[Any]) -> Dataset:
        part = Dataset(fine.domain, np.ascontiguousarray(fine.codes[:, places]))
        drawn = sample(plan, carry_out(plan, MemoryCounter(part)).models, 1)
        if plan.spec.schema.coarse is None:
            return drawn
        return Coarsening(plan.spec.schema).dataset(drawn)

    members, control = (
        Dataset(real.domain, np.ascontiguousarray(real.codes[:, side]))
        for side in (inside, ~inside)
    )
    privacy = plan.spec.privacy
    audit = attack_audit(
        members,
        control,
        make_file(np.flatnonzero(inside)),
        code_values(schema.coarse or schema),
        permitted=permitted_advantage(float(privacy.epsilon), float(privacy.delta)),
        make=lambda part, _: make_file(np.sort(order[part])),
    )
    found = audit.to_json()
    if privacy.max_rows > 1:
        # The store does not identify persons: members and control may share one.
        found["of_records_of_persons"] = True
    return found
