"""A client that sends another message than it should changes no guarantee.

Each field of each message of a release is changed in turn. The release ends before anything more is
drawn, or the ledger paid for all that was drawn and the bundle's statement is true.
"""

from fractions import Fraction

import pytest

from dp_core.kernel.ledger.entries import Entry
from tasks.confidential import connection
from tasks.confidential.messages import REQUESTS
from tests.confidential_side import InThisProcess
from tests.flows.conftest import make_project
from tests.full import some

pytestmark = pytest.mark.usefixtures("quick")

OTHERS = {
    "stage": ["identify", "select", "checks", "measure", ""],
    "codes": ["stored", "coarse", "final", "rows"],
    "fence": [0, 2, -1],
    "reservation": ["0" * 64, ""],
    "release": ["other", "town2"],
    "protocol": [0, 2],
    "cost": [{"fraction": "1000"}, {"fraction": "-1"}, {"fraction": "0"}, {"fraction": "1e-9"}],
    "costs": [[{"fraction": "1000"}], []],
    "cliques": [[["age"], ["age"]], [["income", "income"]], [["other"]], []],
    "replicate": [1, -1, 10**9],
    "round": [1, -1],
    "step": ["other", "../../x", ""],
    "ask": ["tables", "noisy", "choices", "interactions"],
}
"""Other values of the fields of messages and of requests."""
DONE = {"type": "done", "as": True}


class Meddling(InThisProcess):
    """A connection that changes one field of one message."""

    def __init__(self, at, field, value, seen):
        super().__init__()
        self._at, self._field, self._value, self._seen = at, field, value, seen

    def exchange(self, message, blocks, notice):
        self._seen.append((len(self._seen), message))
        if len(self._seen) - 1 == self._at and self._field is None:
            return self._value, {}
        if len(self._seen) - 1 == self._at:
            request = message.get("request", {})
            if self._field in request:
                message = {**message, "request": {**request, self._field: self._value}}
            else:
                message = {**message, self._field: self._value}
        return super().exchange(message, blocks, notice)


def messages_of(tmp_path, home, patch):
    """Return the messages of a release that nobody changes."""
    seen = []
    patch.setattr(connection, "connect", lambda *_: Meddling(None, "", None, seen))
    make_project(tmp_path, home).release()
    return [message for _, message in seen]


def changes(messages):
    """Return every change of a field to another value: its message, its field and the value."""
    for at, message in enumerate(messages):
        given = {**message, **message.get("request", {})}
        for field, others in OTHERS.items():
            if field in given:
                yield from ((at, field, other) for other in others if other != given[field])
        if message["type"] in ("find", "work", "readable"):
            yield at, None, DONE  # it is not sent at all


def test_every_field_of_a_request_is_changed():
    fields = {field for of in REQUESTS.values() for field in of}
    # Paths, an address, and what has fields of its own.
    assert fields - {*OTHERS} == {"spec", "out", "address", "request"}


@pytest.mark.slow
@pytest.mark.parametrize("part", some(list(range(8)), lambda part: part == 0))
def test_a_changed_message_changes_no_guarantee(tmp_path, monkeypatch, part):
    """One eighth of the changes; `--full` makes them all."""
    home = tmp_path / "first-home"
    with monkeypatch.context() as patch:
        patch.setenv("DP_RELEASE_HOME", str(home))
        all_changes = list(changes(messages_of(tmp_path / "first", home, patch)))
    assert len(all_changes) > 100
    released, stopped = 0, 0
    for number, (at, field, value) in enumerate(all_changes[part::8]):
        home = tmp_path / f"home-{number}"
        with monkeypatch.context() as patch:
            patch.setenv("DP_RELEASE_HOME", str(home))
            patch.setattr(
                connection,
                "connect",
                lambda *_, at=at, field=field, value=value: Meddling(at, field, value, []),
            )
            project = make_project(tmp_path / f"work-{number}", home)
            where = f"message {at}, {field} {value!r}"
            try:
                project.release()
            except Exception:  # a refusal, a failed stage, or a message that is none
                stopped += 1
            else:
                released += 1
                assert project.faults() == {}, where
            require_paid(project, where)
    assert stopped > released


def require_paid(project, where):
    """The ledger is intact, it promised no more than the plan, and every result was paid for."""
    ledger = project.ledger()
    ledger.verify()
    reservation = ledger.reservation("town")
    charges = ledger.charges(reservation)
    spent = sum((charge.cost for charge in charges), Fraction(0))
    assert spent <= reservation.currency.limit, where
    for stage, cost in reservation.costs.items():
        own = sum((charge.cost for charge in charges if charge.stage == stage), Fraction(0))
        assert own <= cost, where
    stored = {path.name.split(".noise")[0] for path in project.run_folder.rglob("*.noise*")}
    assert stored <= {charge.batch for charge in charges}, where
    assert all(isinstance(entry, Entry) for entry in ledger.entries())
