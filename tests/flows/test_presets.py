"""Every preset as a release with the real ledger: stopped amid its questions, and gone on with.

An outsider's recomputation arrives at the guarantee that it states.
"""

from contextlib import suppress
from fractions import Fraction

import pytest

from dp_core.bundle.verification.verify import verify
from dp_core.errors import BadInput, StageFailed
from dp_core.plan.presets import PRESETS
from tasks.ledger.charging.ledger_session import LedgerSession
from tests.dp_core.bundle import recomputed
from tests.flows.conftest import SCHEMA
from tests.full import some

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("quick")]

# All columns of two levels, so that every method can take them.
BINARY = SCHEMA.replace("edges: [0, 15, 40, 100]", "edges: [0, 40, 100]")
BINARY = BINARY.replace("levels: [single, married, widowed], missing: level", "levels: [a, b]")
BINARY = BINARY.replace("bins: 4, decimals: 2, missing: level", "bins: 2, decimals: 2")
BINARY = "".join(
    line for line in BINARY.splitlines(True) if "impossible" not in line and "- {age" not in line
)
STAGES = {
    "dualquery": "select: {records: 3}\n",
    "fixed": "select: {cliques: [[age, sex], [sex, income]]}\n",
    "pegs": "select: {records: 20}\n",
    "mwem": "select: {picks: 3}\n",
}


class Stopped(Exception):
    """What stops a release from outside."""


@pytest.fixture
def town(project):
    lines = (project.folder / "town.csv").read_text().splitlines()
    header, rows = lines[0], [line.split(",") for line in lines[1:]]
    for row in rows:
        row[3] = "a" if int(row[1]) < 30 else "b"
        row[4] = row[4] or "0.00"
    text = "\n".join([header, *(",".join(row) for row in rows)]) + "\n"
    (project.folder / "town.csv").write_text(text)
    (project.folder / "town.schema.yaml").write_text(BINARY)
    return project


def write(project, name, *, sets="sets: 1"):
    if name == "average":
        sets += ", models: [modips, sequential_regression]"
    neighbours = "replace-one" if name in REPLACED else "add-remove"
    project.open_account("people", neighbours=neighbours)
    project.write_spec(
        STAGES.get(name, "") + f"synthesize: {{{sets}}}\n",
        method=name,
        account="people",
        privacy=f"{{epsilon: 2, delta: {0 if name in PURE else '1e-6'}, neighbours: {neighbours}}}",
    )


def stop_at(monkeypatch, question):
    """Let the session stop before the numbered question, once; return what was asked."""
    asked = []
    perform = LedgerSession.perform

    def counting(self, batch, steps, draw):
        asked.append(batch)
        if len(asked) == question:
            raise Stopped
        return perform(self, batch, steps, draw)

    monkeypatch.setattr(LedgerSession, "perform", counting)
    return asked


SPLIT = ("mwem", "aim", "sba", "pegs", "privsyn")
"""Made in sets of which each has a measurement of its own."""
PURE = ("mwem", "privbayes", "laplace-sanitizer", "efpa", "multinomial-dirichlet")
REPLACED = ("aim", "privbayes", "sba", "efpa")
SUMS = ("modips", "slomag", "sequential-regression", "average")
"""Methods that measure sums, of which the outsider knows nothing."""
KINDS = {
    "aim": {"discrete-gaussian", "noisy-max"},
    "mwem": {"discrete-laplace", "noisy-max"},
    "sba": {"stability-histogram"},
    "multinomial-dirichlet": {"polya-urn"},
}
"""What noise is drawn by methods that draw every kind between them."""


def assert_recomputed(project, name):
    """An outsider arrives at what is stated."""
    document = project.statement()
    epsilon, delta = recomputed.recompute(project.out)
    enforced = document["guarantee"]["enforced"]
    # What follows is no more than was promised, and nearly all of it.
    assert 1.999 <= epsilon <= float(Fraction(enforced["epsilon"]["exact"])) + 1e-9
    assert delta <= Fraction(enforced["delta"]["exact"])
    used = document["accounting"]["mechanisms"]
    assert {*used} >= KINDS.get(name, set())
    assert all(mechanism["cost"] for mechanism in used.values())


# beta-binomial takes no numbers, which this file has; it draws as smoothed-histogram does.
@pytest.mark.parametrize(
    "name",
    some((name for name in PRESETS if name != "beta-binomial"), lambda name: name in KINDS),
)
def test_a_release_stopped_amid_its_questions_asks_the_same_and_pays_once(town, monkeypatch, name):
    write(town, name, sets="sets: 2, mode: split" if name in SPLIT else "sets: 1")
    asked = stop_at(monkeypatch, 3)
    with suppress(StageFailed):
        town.release()
    with suppress(BadInput):  # that it is finished: a method of two questions is not stopped
        town.release()
    found = verify(town.out)
    assert found.passed, found.failures
    assert len(list((town.out / "synthetic").iterdir())) == 1 + (name in SPLIT)
    ledger = town.ledger()
    reservation = ledger.reservation("town")
    charges = ledger.charges(reservation)
    assert len({(charge.stage, charge.step) for charge in charges}) == len(charges)
    assert sum((charge.cost for charge in charges), Fraction(0)) == reservation.currency.limit
    assert all(charge.result for charge in charges)
    assert town.redraws() == 0
    assert set(asked) == {charge.batch for charge in charges}
    if name not in SUMS:
        assert_recomputed(town, name)
