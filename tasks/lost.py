"""What a finished stage left and is gone, so that the stage is done again.

Codes, models and synthetic sets are made again at no cost; a noisy result that was committed is
not among them, for it is never drawn again.
"""

from __future__ import annotations

from collections.abc import Callable

from dp_core.errors import StageFailed
from tasks.measure_marginals import MARGINALS, SELECTION
from tasks.reconstruct import model_file
from tasks.run import CONFIDENTIAL_STAGES, Run
from tasks.synthesize import synthetic_codes, synthetic_file


def forget_lost(run: Run) -> None:
    """Forget finished stages whose product is missing and still needed."""
    if run.folder.done("publish") is not None:
        return
    products: dict[str, Callable[[Run], bool]] = {
        "select": lambda run: (run.folder.public / SELECTION).is_file(),
        "measure": lambda run: (run.folder.public / MARGINALS).is_file(),
        "reconstruct": _has_models,
        "synthesize": _has_sets,
    }
    for stage, whole in products.items():
        if run.folder.done(stage) is not None and not whole(run):
            run.folder.forget(stage)
    if needs_data(run) and run.folder.done("discretize") is not None and not _has_codes(run):
        run.folder.forget("discretize")


def needs_data(run: Run) -> bool:
    """Return whether a stage that looks at the data is still to be done."""
    return any(run.folder.done(stage) is None for stage in CONFIDENTIAL_STAGES)


def _has_codes(run: Run) -> bool:
    from dp_core.code_store import CodeStore

    try:
        store = CodeStore(run.codes, run.spec.schema.domain)
        for chunk in range(store.chunks):
            store.read(chunk)  # opening looks at lengths only; this finds a file that was garbled
    except StageFailed:
        return False
    return True


def _has_models(run: Run) -> bool:
    facts = run.fact("reconstruct", "models")
    assert isinstance(facts, list)
    return all(model_file(run, fact["replicate"]).is_file() for fact in facts)


def _has_sets(run: Run) -> bool:
    try:
        for number in range(1, run.spec.sets + 1):
            synthetic_codes(run, number)
    except StageFailed:
        return False
    return all(synthetic_file(run, number).is_file() for number in range(1, run.spec.sets + 1))
