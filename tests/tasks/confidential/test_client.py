"""The client believes no value of a reply that its own files do not allow."""

from fractions import Fraction
from types import SimpleNamespace

import pytest

from dp_core.errors import BadInput, SchemaViolation
from tasks.confidential.client import Client
from tasks.confidential.frames import Malformed
from tasks.support.run_folder import RunFolder

CANARY = "salary-of-row-4711"
CHARGE = SimpleNamespace(stage="total", cost=Fraction(1, 3))
OTHER = SimpleNamespace(stage="measure", cost=Fraction(1, 9))
CHARGES = {None: (CHARGE, OTHER), "measure-0": (OTHER,)}


class Answering:
    """A connection that answers every request but `open` alike, after one notice."""

    def __init__(self, reply, told):
        self._reply, self._told = reply, told

    def exchange(self, message, _, notice):
        if message["type"] == "open":
            return {"type": "done", "as": True}, {}
        if self._told:
            notice(self._told)
        return self._reply, {}


@pytest.fixture
def run(tmp_path):
    relation = SimpleNamespace(rows_public=False)
    spec = SimpleNamespace(
        release="town",
        sets=2,
        schema=SimpleNamespace(coarse=None),
        privacy=SimpleNamespace(relation=relation),
    )
    return SimpleNamespace(
        folder=RunFolder(tmp_path, "town"),
        planned=SimpleNamespace(spec=spec),
        spec=spec,
        spec_path=tmp_path / "spec.yaml",
        out=tmp_path / "out",
        reservation=SimpleNamespace(
            release="town", link="l" * 64, plan="p" * 64, costs={"total": Fraction(1, 2)}
        ),
        writer=SimpleNamespace(lease=SimpleNamespace(fence=7)),
        ledger=SimpleNamespace(charges=lambda _, batch=None: CHARGES.get(batch, ())),
        progress=lambda *_: None,
        tell_committed=lambda _: None,
    )


def answer(run, ask, reply, told=None):
    """Return what the client makes of a reply."""
    return ask(Client(lambda: Answering(reply, told)), run)


def rows(client, run):
    return client.rows(run, "count", "final")


def find(client, run):
    return client.find(run)


def grant(client, run):
    return client.grant(run, "basics")


def test_what_the_files_of_the_client_allow_is_believed(run):
    told = {"type": "committed", "batch": "measure-0"}
    assert answer(run, rows, {"type": "rows", "rows": None}, told) is None
    given = answer(run, grant, {"type": "done", "as": True})
    assert (given.stage, given.reservation, given.fence) == ("basics", "l" * 64, 7)
    assert given.left == {"total": Fraction(1, 6), "one_way": 0}  # the ledger says it


@pytest.mark.parametrize(
    ("ask", "reply"),
    [
        (rows, {"type": "rows", "rows": 4711}),
        (rows, {"type": "rows", "rows": -4711}),
        (rows, {"type": "rows", "rows": CANARY}),
        (rows, {"type": "done", "as": True}),
    ],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_any_other_value_is_refused(run, ask, reply):
    with pytest.raises((Malformed, ValueError)) as refused:
        answer(run, ask, reply)
    assert CANARY not in str(refused.value)


def test_a_batch_that_the_ledger_does_not_know_is_refused(run):
    reply = {"type": "rows", "rows": None}
    with pytest.raises(Malformed):
        answer(run, rows, reply, {"type": "committed", "batch": CANARY})


@pytest.mark.parametrize(
    ("counted", "heard"),
    [
        ("refused", SchemaViolation),
        ("unreadable", SchemaViolation),
        *((state, Malformed) for state in ("open", "fits", "charged", None)),
    ],
)
def test_a_verdict_that_the_ledger_has_not_counted_is_not_heard(run, counted, heard):
    run.ledger.examination = lambda _: counted
    with pytest.raises(heard):
        answer(run, rows, {"type": "verdict", "verdict": "refused", "kept": False})


def test_another_row_is_not_heard_once_the_data_may_be_open(run):
    reply = {"type": "error", "kind": "BadInput", "row": "data-damaged", "kept": False}
    with pytest.raises(BadInput) as refused:
        answer(run, find, reply)
    assert refused.value.row == "data-damaged"
    with pytest.raises(Malformed):
        answer(run, rows, reply)


def test_a_number_of_rows_that_is_public_is_not_left_out(run):
    run.spec.privacy.relation.rows_public = True
    assert answer(run, rows, {"type": "rows", "rows": 4711}) == 4711
    with pytest.raises(Malformed):
        answer(run, rows, {"type": "rows", "rows": None})
