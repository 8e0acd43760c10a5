"""The work on the file: find it, then identify, check, code, count and compare it.

Of the data, the client learns only whether they fit, were refused, or could not be read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from dp_core.errors import DataRefused, StageFailed
from dp_core.kernel.counting.household_counter import HouseholdCounter
from dp_core.kernel.counting.linked_columns import with_members
from dp_core.kernel.counting.marginal import Counter
from dp_core.kernel.counting.stored_rows import CheckedCounter
from dp_core.schema.grid import Coarsening
from dp_core.tables.coarse_counter import CoarseCounter
from tasks.confidential.confidential_run import ConfidentialRun
from tasks.run.home import recognising_key
from tasks.run.public_files import read_released, records, synthetic_codes, synthetic_files

_COUNTED, _COMPARED, _SCORED, _WRITTEN = 0.1, 0.5, 0.7, 0.8
"""Parts of the stage `check`, roughly, after the sets are counted, compared with the file and
scored, and after the internal pages are written; the sets are judged later."""


def find(run: ConfidentialRun) -> None:
    """Find the data, and try what the schema asks of them; the data are not opened.

    Raises:
        BudgetRefused: if refused attempts have stopped the account.
        BadInput: if there are no data, two levels are one number or time, or the library cannot
            judge a team's own expectation.
        LedgerCorrupt: if the key that identifies inputs is gone.
        StageFailed: if too many attempts are open, the ledger's inputs are sealed with another key,
            or a store or database does not answer.
    """
    from dp_core.kernel.coding.raw_values import Reader
    from tasks.inputs.open_input import find_input
    from tasks.validation.expectations import try_expectations

    refusal = run.ledger.opening_refusal(run.reservation)
    if refusal is not None:
        raise refusal
    recognising_key(run.ledger)
    find_input(run.spec, run.schema, run.folder.confidential, run.rules)
    for column in run.rules.columns:
        Reader(column)
    try_expectations(run.schema.stored)


def identify(run: ConfidentialRun) -> None:
    """Bind the reservation to the keyed hash of the input, or refuse another input.

    All data are bound together, and each part by itself: each of several files, of linked tables
    and of a panel's waves. So a part alone, or with other parts, belongs to the same account.

    Privacy:
        The keyed hashes are stored in the ledger's sealed table and in the confidential folder
        only.

    Raises:
        DataRefused: if the release is bound to another input, two parts of the data are equal, or
            the prior that the spec declares public is a file of the input.
    """
    from dp_core.confidential.source import keyed_digests

    source = run.opened
    _refuse_as_prior(source.files, dict(run.spec.prior.document) if run.spec.prior else {})
    digests = keyed_digests(source, run.key)
    if len({*digests.parts.values()}) < len(digests.parts):
        # privacy: whoever is in it twice would be protected half as much as stated.
        raise DataRefused(
            "Two files or parts of the data have the same rows, so whoever is in one is counted"
            " twice. The ledger counts a refused attempt. Remove one of them; a link and the file"
            " that it points to are the same.",
            row="data-do-not-fit",
        )
    run.writer.bind_input(run.reservation, digests.whole, run.key, digests.parts)
    run.folder.belong_to(digests.whole)


def _refuse_as_prior(files: Sequence[Path], prior: Mapping[str, str]) -> None:
    """Refuse an input if one of its files is the file that is declared public as the prior.

    Args:
        files: Files of the input.
        prior: What the plan states about the prior; empty without one.

    Privacy:
        Records of a prior enter the sets without noise. The ledger cannot know a file that was
        never an input, so the release compares the two. The unkeyed hashes stay in memory.

    Raises:
        DataRefused: if one of them is.
    """
    if "file" not in prior:
        return
    for path in files:
        with path.open("rb") as file:
            if hashlib.file_digest(file, "sha256").hexdigest() == prior["sha256"]:
                raise DataRefused(
                    "The prior is a file of this release's own input, so it is confidential. The"
                    " ledger counts a refused attempt. Name a public file under `prior`, or remove"
                    " the key.",
                    row="public-data-known",
                )


def check_values(run: ConfidentialRun) -> None:
    """Check every value of the file against the schema, and write its codes.

    Raises:
        SchemaViolation: if a value does not fit, or rows break a rule between columns.
    """
    from dp_core.confidential.linked.linked_source import LinkedSource
    from tasks.validation.expectations import validate, validate_linked

    progress = partial(run.progress, "validate")
    if isinstance(run.opened, LinkedSource):
        validate_linked(run.opened, run.schema, run.folder.internal, progress, run.codes, run.rules)
    else:
        # Write the codes too, so that the file is read only once.
        schema, source = run.schema.stored, run.source
        validate(source, schema, run.folder.internal, progress, run.codes, run.rules)
    run.seal_codes()


def write_codes(run: ConfidentialRun) -> None:
    """Weigh the units of the codes that the check wrote; write codes again if they are unusable.

    Raises:
        SchemaViolation: if the file does not fit the schema.
        StageFailed: if a unit has another weight in the codes than the document states.
    """
    try:
        _ = run.stored_rows
    except StageFailed:
        from dp_core.confidential import coding

        # The codes that the check wrote were lost, or a fault of the machine is in them.
        coding.write_codes(run.opened, run.rules, run.codes, partial(run.progress, "discretize"))
        run.seal_codes()
        _ = run.stored_rows


def count(run: ConfidentialRun) -> None:
    """Count, in one pass, the tables that are needed whatever the selection chooses."""
    cliques = [table.clique for table in run.plan.tables]
    cliques += run.spec.selector.needs(run.spec.schema.domain)
    if run.schema.linked is not None:
        # The weights of pair rows need the number of members (`HouseholdCounter`).
        cliques = [*map(with_members, cliques)]
    asked = tuple(dict.fromkeys(cliques))
    found = run.row_counter.count(asked, partial(run.progress, "count"))
    # Before the first charge.
    CheckedCounter(run.row_counter, run.schema.domain, run.stored_rows.rows).check(found)


def readable(run: ConfidentialRun) -> bool:
    """Return whether the code store can be read, and its units have the right weight."""
    try:
        _ = run.stored_rows
    except Exception:  # each reader of a damaged file raises its own kind of error
        return False
    return True


def compare(run: ConfidentialRun) -> None:
    """Compare the finished sets with the file, and write the comparison to the internal folder."""
    from dp_core.confidential.utility import utility, write_utility
    from dp_core.lab.comparison.utility_page import UtilityPage
    from tasks.confidential.internal_inference import scores_or_reason, unheard
    from tasks.counting.dask_counter import DaskCounter

    def part(start: float, end: float) -> Callable[[float], None]:
        return lambda done: run.progress("check", start + (end - start) * done)

    domain, number = run.spec.schema.domain, records(run)
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
    result = utility(counters[0], counters[1:], domain, progress=part(_COUNTED, _COMPARED))
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


def _compare_inference(run: ConfidentialRun) -> None:
    """Write the comparison of the spec's regressions on sets and file to the internal folder."""
    if not run.spec.formulas:
        return
    from dp_core.inference.combining_rules import rule_of
    from tasks.confidential.internal_inference import write_comparison

    write_comparison(
        run.folder.internal,
        run.source,
        run.spec.schema,
        [file for n in range(1, run.spec.sets + 1) for file in synthetic_files(run, n)],
        run.spec.formulas,
        rule=rule_of(run.spec.mode, run.spec.sets),
    )


WORK: Mapping[str, Callable[[ConfidentialRun], None]] = {
    "identify": identify,
    "validate": check_values,
    "discretize": write_codes,
    "count": count,
    "check": compare,
}
"""The work of each stage, by the stage's name."""
