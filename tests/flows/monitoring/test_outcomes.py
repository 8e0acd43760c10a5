"""The release flow says once how it ended, in one word and one sentence."""

from __future__ import annotations

import pytest

from dp_core.errors import (
    AwaitsApproval,
    BadInput,
    BudgetRefused,
    Held,
    LedgerCorrupt,
    SchemaViolation,
    StageFailed,
    Unpublished,
)
from flows import release as flows_release
from flows.monitoring.outcome import Outcome, outcome_of


@pytest.mark.parametrize(
    ("failure", "name", "code"),
    [
        (None, "published", 0),
        (Held("A."), "held", Held.exit_code),
        (AwaitsApproval("A."), "waiting", AwaitsApproval.exit_code),
        (Unpublished("A."), "withdrawn", Unpublished.exit_code),
        (BadInput("A."), "refused", 2),
        (SchemaViolation("A."), "refused", 2),
        (BudgetRefused("A."), "refused", 3),
        (StageFailed("A."), "failed", 4),
        (LedgerCorrupt("A."), "failed", 5),
    ],
)
def test_every_end_has_a_word_and_the_exit_code_of_the_command(failure, name, code):
    outcome = outcome_of("r", failure)

    assert (outcome.name, outcome.exit_code) == (name, code)
    assert outcome.is_failure == (name in ("refused", "failed"))
    assert outcome.sentence.endswith(".")


def test_a_spec_that_cannot_be_read_is_announced_once(tmp_path, monkeypatch):
    told: list[tuple[Outcome, str, str | None]] = []
    monkeypatch.setattr(
        flows_release,
        "announce",
        lambda outcome, *, release, account: told.append((outcome, release, account)),
    )

    with pytest.raises(BadInput):
        flows_release.release.fn(spec=str(tmp_path / "no.yaml"), out=str(tmp_path / "out"))

    assert [(outcome.name, release, account) for outcome, release, account in told] == [
        ("refused", "no.yaml", None)
    ]
