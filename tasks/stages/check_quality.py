"""The stage `check`: quality figures of three kinds.

Public figures use noisy values only, charged figures are paid for, and confidential figures compare
the sets with the data for staff only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from dp_core.kernel.counting.household_counter import HouseholdCounter
from dp_core.kernel.counting.marginal import Counter
from dp_core.kernel.questions.table_checks import TableChecks
from dp_core.kernel.released import Charged
from dp_core.methods.reconstruction.estimates.pooled_parts import pooled_records
from dp_core.metrics.quality_figures import charged_figure
from dp_core.plan.quality_checks import countable, public_figures, reference_counts
from dp_core.policies.stage_grant import StageGrant
from dp_core.schema.grid import Coarsening
from dp_core.tables.coarse_counter import CoarseCounter
from tasks.run.confidential_run import ConfidentialRun
from tasks.run.internal_inference import scores_or_reason, unheard, write_comparison
from tasks.run.release_run import Run
from tasks.stages.reconstruct import read_released
from tasks.stages.stage_task import granted_stage, stage
from tasks.stages.synthesize import synthetic_codes, synthetic_files

if TYPE_CHECKING:
    from dp_core.bundle.quality.table_fit import Compared
    from dp_core.metrics.marginal_error import Tally

_TALLIED, _COMPARED, _SCORED, _WRITTEN = 0.1, 0.5, 0.7, 0.8
"""Parts of the stage, roughly, after the sets are counted, compared with the file and scored, and
after the internal page is written. The rest judges the sets by their suite."""


@granted_stage("check")
def check_quality(run: ConfidentialRun, grant: StageGrant) -> Mapping[str, object]:
    """Compare the sets with the noisy tables and with the confidential file.

    Returns:
        Public facts: the public and charged figures, the fit of the sets to each noisy table, and
        the expectations of the schema that each set does not meet.
    """
    from dp_core.confidential.utility import utility, write_utility
    from dp_core.lab.comparison.utility_page import UtilityPage
    from tasks.counting.dask_counter import DaskCounter

    domain = run.spec.schema.domain
    tallies, number = tally_sets(run, _part_progress(run, 0.0, _TALLIED)), records(run)
    charged = ask_checks(run, grant, tallies, number)
    numbers = range(1, run.spec.sets + 1)
    # Each table of a set is counted once, so keeping it would only take memory.
    drawn = [DaskCounter(synthetic_codes(run, each), domain, cached_bytes=0) for each in numbers]
    counters: list[Counter] = [run.counter, *drawn]
    if run.schema.linked is not None:
        counters = [run.counter, *(HouseholdCounter(each, run.schema.linked) for each in drawn)]
    if run.spec.schema.coarse is not None:
        # Readers of the figures know the schema's bins, not the positions of a method's grid.
        coarsening = Coarsening(run.spec.schema)
        counters = [CoarseCounter(counter, coarsening) for counter in counters]
        domain = coarsening.domain
    result = utility(
        counters[0], counters[1:], domain, progress=_part_progress(run, _TALLIED, _COMPARED)
    )
    page = UtilityPage(
        title=run.spec.schema.title,
        schema=run.schema.coarse or run.schema,
        released=read_released(run),
        records=number,
        rows=number if run.spec.privacy.relation.rows_public else None,
    )
    scores: Mapping[str, object] = {}
    if run.schema.linked is None:  # the scores take records, not pair rows
        scores = scores_or_reason(
            run.store,
            [synthetic_codes(run, each) for each in numbers],
            run.schema,
            page.released,
            records=number,
            rows=page.rows,
            mean_tvd=[
                {error.ways: error.mean for error in errors if error.ways > 1}
                for errors in result.sets
            ],
        )
    run.progress("check", _SCORED)
    with unheard():  # privacy: warnings while the page is made may depend on the data.
        write_utility(run.folder.internal, result, page, scores=scores)
    _compare_inference(run)
    run.progress("check", _WRITTEN)
    return _public_facts(
        run,
        tallies,
        [charged_figure(figure, number) for figure in charged],
        _part_progress(run, _WRITTEN, 1.0),
    )


@stage("check")
def check_against_tables(run: Run) -> Mapping[str, object]:
    """Compare the sets with the noisy tables only; the check of a release that opens no data.

    Returns:
        Public facts, as `check_quality`; there are no charged figures.
    """
    tallies = tally_sets(run, _part_progress(run, 0.0, _TALLIED))
    return _public_facts(run, tallies, [], _part_progress(run, _TALLIED, 1.0))


def _part_progress(run: Run, start: float, end: float) -> Callable[[float], None]:
    """Return a function that reports the part of a step that is done as that of the stage.

    Args:
        run: The run.
        start: Part of the stage before the step.
        end: Part of the stage after the step.
    """
    return lambda done: run.progress("check", start + (end - start) * done)


def _public_facts(
    run: Run,
    tallies: Sequence[Tally],
    charged: Sequence[Mapping[str, object]],
    progress: Callable[[float], None],
) -> Mapping[str, object]:
    """Return the public facts: they use noisy tables, sets, and figures that were paid for."""
    from dp_core.bundle.quality.table_fit import check_fit, fit_facts, ruled_tables
    from tasks.validation.judged_frames import judge_linked_sets, judge_sets

    fits = check_fit(
        _comparable_tables(run),
        tallies,
        records=records(run),
        redrawn=run.spec.mode == "noise-aware",
    )
    # Public figures use only columns that a verifier can count again in the published sets.
    judged = [fit for fit in fits if {*fit.clique} <= {*countable(run.spec.schema).columns}]
    figures = public_figures(
        [value for fit in judged for value in fit.set_tvd],
        [value for fit in judged for value in fit.expected_tvd],
        len(judged),
    )
    schema = run.spec.schema.coarse or run.spec.schema
    files = [synthetic_files(run, number) for number in range(1, run.spec.sets + 1)]
    if schema.linked is None:
        not_met = judge_sets(schema, [file for (file,) in files], progress)
    else:
        not_met = judge_linked_sets(schema, files, progress)
    return {
        "checks": {
            "public": [figure.to_json() for figure in figures],
            "charged": list(charged),
        },
        "tables": sum(not fit.beyond for fit in fits),
        "interactions": sum(fit.beyond for fit in fits),
        "mean_tvd_to_noisy": _mean([value for fit in fits for value in fit.set_tvd]),
        "mean_expected_tvd": _mean([value for fit in fits for value in fit.expected_tvd]),
        "fits": fit_facts(fits),
        "rules": ruled_tables(run.spec.schema, judged),
        "expectations_not_met": not_met,
    }


def _compare_inference(run: ConfidentialRun) -> None:
    """Write the comparison of the spec's regressions on sets and file to the internal folder."""
    if not run.spec.formulas:
        return
    from dp_core.inference.combining_rules import rule_of

    write_comparison(
        run.folder.internal,
        run.source,
        run.spec.schema,
        [file for n in range(1, run.spec.sets + 1) for file in synthetic_files(run, n)],
        run.spec.formulas,
        rule=rule_of(run.spec.mode, run.spec.sets),
    )


def tally_sets(run: Run, progress: Callable[[float], None] = lambda _: None) -> tuple[Tally, ...]:
    """Return the counts that checks, pictures and the report need, one tally for each set.

    Args:
        run: The run; its sets must be finished.
        progress: Called with the part that is done, 0 to 1; does nothing by default.
    """
    from dp_core.bundle.quality.table_fit import needed_counts
    from dp_core.kernel.counting.dataset import Dataset
    from dp_core.metrics.marginal_error import tally_of

    schema = run.spec.schema
    coarsening = Coarsening(schema) if schema.coarse is not None else None
    domain = schema.domain if coarsening is None else coarsening.domain
    cliques = dict.fromkeys((*needed_counts(domain, read_released(run)), *run.spec.checks))
    tallies = []
    for number in range(1, run.spec.sets + 1):
        tally, store = tally_of(domain, cliques), synthetic_codes(run, number)
        for chunk in range(store.chunks):
            piece = Dataset(schema.domain, store.codes(chunk))
            tally.add(piece if coarsening is None else coarsening.dataset(piece))
            progress((number - 1 + (chunk + 1) / store.chunks) / run.spec.sets)
        tallies.append(tally)
    return tuple(tallies)


def _comparable_tables(run: Run) -> tuple[Compared, ...]:
    """Return the noisy tables and interactions that can be compared in the schema's own codes."""
    from dp_core.bundle.quality.table_fit import comparable

    schema = run.spec.schema
    return comparable(read_released(run), (schema.coarse or schema).domain)


def records(run: Run) -> int:
    """Return the number of records of the file: the public number, or the models' noisy one.

    Without sets there is no model, and all noisy tables together tell it. The models of sets that
    meet public totals have the number of these.
    """
    if run.schema.totals or not run.has("reconstruct"):
        public = run.fact("basics", "rows")
        if isinstance(public, int):
            return public
        return pooled_records(run.schema.domain, read_released(run))
    models = run.fact("reconstruct", "models")
    assert isinstance(models, list)
    return round(sum(model["rows"] for model in models) / len(models))


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def ask_checks(
    run: ConfidentialRun, grant: StageGrant, tallies: Sequence[Tally], records: int
) -> tuple[Charged, ...]:
    """Return the charged figures of a release; empty if its plan has none.

    Args:
        run: The run; its sets must be finished.
        grant: The ledger's grant for the stage.
        tallies: Counts of each set, in the schema's own codes.
        records: Number of records of the file: public or noisy.

    Privacy:
        The reference counts depend only on the synthetic sets and a public or noisy number. After a
        crash the same plan, seed and noisy results give the same question, so the stored answer is
        read back instead of drawn again.
    """
    from dp_core.kernel.curator import Curator

    tables, cost = run.spec.checks, run.plan.costs["checks"]
    if not tables or not cost:
        return ()
    curator = run.curator(grant)
    if run.schema.coarse is not None:
        # Use the schema's bins instead of grid positions; each row is in one cell of each table.
        coarsening = Coarsening(run.schema)
        counter = CoarseCounter(run.counter, coarsening)
        curator = Curator(coarsening.domain, counter, run.session(grant))
    references = reference_counts(tallies, tables, records)
    return curator.check("distances", TableChecks(tables, references), cost)
