"""The stage `check`: quality figures of three kinds, and the schema's expectations of the sets.

Public figures use noisy values only, charged figures are paid for, and confidential figures compare
the sets with the data for staff only. The sets are judged in this process, which holds no row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from dp_core.client.released import Charged
from dp_core.kernel.questions.table_distance import TableChecks
from dp_core.metrics.quality_figures import charged_figure
from dp_core.plan.quality_checks import countable, public_figures, reference_counts
from dp_core.policies.stage_grant import StageGrant
from dp_core.schema.grid import Coarsening
from tasks.confidential.public_run import PublicRun
from tasks.run.public_files import read_released, records, synthetic_codes, synthetic_files
from tasks.run.release_run import Run
from tasks.stages.stage_task import granted_stage, stage

if TYPE_CHECKING:
    from dp_core.bundle.quality.table_fit import Compared
    from dp_core.metrics.marginal_error import Tally

_TALLIED, _COMPARED = 0.1, 0.8
"""Parts of the stage, roughly, after the sets are counted, and compared with the file."""


@granted_stage("check")
def check_quality(run: PublicRun, grant: StageGrant) -> Mapping[str, object]:
    """Compare the sets with the noisy tables and with the confidential file.

    Returns:
        Public facts: the public and charged figures, the fit of the sets to each noisy table, and
        the expectations of the schema that each set does not meet.
    """
    best, tallies, number = *_tallies(run), records(run)
    charged = ask_checks(run, grant, tallies, number)
    run.confidential.work(run, "check")
    figures = [charged_figure(figure, number) for figure in charged]
    return _public_facts(run, best, tallies, figures)


@stage("check")
def check_against_tables(run: PublicRun) -> Mapping[str, object]:
    """Compare the sets with the noisy tables only; the check of a release that opens no data.

    Returns:
        Public facts, as `check_quality`; there are no charged figures.
    """
    return _public_facts(run, *_tallies(run), [])


def _tallies(run: PublicRun) -> tuple[tuple[Tally, ...], tuple[Tally, ...]]:
    """Return the counts of the best set, if there is one, and of the sets for inference."""
    tallies = tally_sets(run, run.spec.set_numbers, _part_progress(run, 0.0, _TALLIED))
    first = len(tallies) - run.spec.sets
    return tallies[:first], tallies[first:]


def _part_progress(run: Run, start: float, end: float) -> Callable[[float], None]:
    """Return a function that reports the part of a step that is done as that of the stage.

    Args:
        run: The run.
        start: Part of the stage before the step.
        end: Part of the stage after the step.
    """
    return lambda done: run.progress("check", start + (end - start) * done)


def _public_facts(
    run: PublicRun,
    best: Sequence[Tally],
    tallies: Sequence[Tally],
    charged: Sequence[Mapping[str, object]],
) -> Mapping[str, object]:
    """Return the public facts: they use noisy tables, sets, and figures that were paid for."""
    from dp_core.bundle.quality.carried_relations import carried_relations
    from dp_core.bundle.quality.table_fit import check_fit, fit_facts, mean_tvd, ruled_tables

    schema = run.spec.schema.coarse or run.spec.schema
    compared, number = _comparable_tables(run), records(run)
    fits = check_fit(compared, tallies, records=number)
    # Public figures use only columns that a verifier can count again in the published sets.
    known = {*countable(run.spec.schema).columns}
    judged = [fit for fit in fits if {*fit.clique} <= known]
    of_best = check_fit(compared, best, records=number) if best else ()
    figures = public_figures(
        [value for fit in judged for value in fit.set_tvd],
        [value for fit in judged for value in fit.expected_tvd],
        len(judged),
    )
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
        "best": mean_tvd(fit for fit in of_best if {*fit.clique} <= known),
        "relations": carried_relations(read_released(run), schema).to_json(),
        "rules": ruled_tables(run.spec.schema, judged),
        "expectations_not_met": _judge_sets(run),
    }


def _judge_sets(run: PublicRun) -> list[list[int]]:
    """Return, for each set, the numbers of the expectations of the schema that it does not meet."""
    from tasks.validation.judged_sets import judge_sets

    files = [synthetic_files(run, number) for number in run.spec.set_numbers]
    schema = run.spec.schema.coarse or run.spec.schema
    return judge_sets(schema, files, _part_progress(run, _COMPARED, 1.0))


def tally_sets(
    run: Run, numbers: Sequence[int], progress: Callable[[float], None] = lambda _: None
) -> tuple[Tally, ...]:
    """Return the counts that checks, pictures and the report need, one tally for each set.

    Args:
        run: The run; its sets must be finished.
        numbers: Numbers of the sets.
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
    for at, number in enumerate(numbers):
        tally, store = tally_of(domain, cliques), synthetic_codes(run, number)
        for chunk in range(store.chunks):
            piece = Dataset(schema.domain, store.codes(chunk))
            tally.add(piece if coarsening is None else coarsening.dataset(piece))
            progress((at + (chunk + 1) / store.chunks) / len(numbers))
        tallies.append(tally)
    return tuple(tallies)


def _comparable_tables(run: Run) -> tuple[Compared, ...]:
    """Return the noisy tables and interactions that can be compared in the schema's own codes."""
    from dp_core.bundle.quality.table_fit import comparable

    schema = run.spec.schema
    return comparable(read_released(run), (schema.coarse or schema).domain)


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def ask_checks(
    run: PublicRun, grant: StageGrant, tallies: Sequence[Tally], records: int
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
    tables, cost = run.spec.checks, run.plan.costs["checks"]
    if not tables or not cost:
        return ()
    references = reference_counts(tallies, tables, records)
    return run.curator(grant, "coarse").check("distances", TableChecks(tables, references), cost)
