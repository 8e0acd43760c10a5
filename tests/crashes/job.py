"""What one process does of a release: everything, from the account on, or as far as it lives."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.crashes.points import Instrument, Point

if TYPE_CHECKING:
    from dp_core.plan.plan import Plan
    from tasks.ledger.ledger import Ledger
    from tasks.ledger.reservations import Charge

RELEASE = "town"
SCHEMA = """\
version: 1
title: Town survey
unit: row
rows_about: 600
missing_values: [""]
columns:
  age:     {type: integer, min: 0, max: 99, edges: [0, 15, 40, 100]}
  sex:     {type: category, levels: [female, male]}
  marital: {type: category, levels: [single, married, widowed]}
  wage:    {type: integer, min: 0, max: 15, bins: {private: 2}}
impossible:
  - {age: "<15", marital: [married, widowed]}
"""
SPEC = """\
version: 1
release: town
data: town.csv
schema: town.schema.yaml
account: town
privacy: {epsilon: 1, delta: 1e-6}
method: privsyn
total: {share: 0.05}
synthesize: {sets: 2}
"""
LINKED_SCHEMA = """\
version: 1
title: Town households
unit: {table: homes, max_members: 3}
rows_about: 300
tables:
  homes:
    key: home
    columns:
      tenure: {type: category, levels: [own, rent]}
  people:
    key: nr
    parent: homes
    link: home
    columns:
      age: {type: integer, min: 0, max: 99, edges: [0, 15, 40, 100]}
      sex: {type: category, levels: [female, male]}
"""
LINKED_SPEC = """\
version: 1
release: town
data: {homes: homes.csv, people: people.csv}
schema: town.schema.yaml
account: town
privacy: {epsilon: 1, delta: 1e-6}
tables: [[members, tenure], [tenure, age], [age, sex], [age, other.age]]
# A private choice of more tables would meet other points in one run than in the next.
select: {order: 1}
synthesize: {sets: 2}
"""
CHECKED = "checks: {share: 0.3, tables: [[age, sex], [sex, marital]], thresholds: [%s]}\n"
KINDS: Mapping[str, str] = {
    "plain": "",
    "published": "publish: after-approval\n" + CHECKED % "{figure: worst_tvd, hold: 1}",
    "withdrawn": CHECKED % "{figure: worst_tvd, hold: 1e-5}",
    "failed": CHECKED % "{figure: worst_tvd, fail: 1e-5}",
    "refused": "",
    "reused": "",
    "linked": "",
}
"""What the spec says beside, by what becomes of the release: a person who looked publishes it or
withdraws it, its own thresholds end it, or the data refuse it. `reused` is a second release, from
the tables of a first one that is finished before, and whose data are gone. `linked` is one of two
linked tables."""
AGAIN = """\
version: 1
release: again
schema: town.schema.yaml
account: town
measurements: town
synthesize: {sets: 2, seed: 5}
"""
ENDS = {
    "plain": "finished",
    "published": "finished",
    "withdrawn": "withdrawn",
    "failed": "failed-thresholds",
    "refused": "returned",
    "reused": "finished",
    "linked": "finished",
}
BY = {"by": "officer", "reason": "test"}


@dataclass(frozen=True, slots=True)
class Place:
    """The folders of one release that is to be killed, and its ledger.

    Attributes:
        folder: Holds data, spec, home and bundle.
        url: Of the ledger; None is the home's own SQLite file.
        kind: What is to become of it, one of `KINDS`.
    """

    folder: Path
    url: str | None = None
    kind: str = "plain"

    @property
    def release(self) -> str:
        return "again" if self.kind == "reused" else RELEASE

    @property
    def spec(self) -> Path:
        return self.folder / "work" / f"{self.release}.yaml"

    @property
    def out(self) -> Path:
        return self.folder / f"out-{self.release}" / "bundle"

    @property
    def home(self) -> Path:
        return self.folder / "home"

    @property
    def run_folder(self) -> Path:
        return self.home / "runs" / self.release

    @property
    def state(self) -> Path:
        return self.folder / "state"

    @property
    def noisy(self) -> Path:
        return self.run_folder / "public" / "noisy"

    @property
    def recorded(self) -> Path:
        return self.folder / "points.json"

    def prepare(self) -> Place:
        """Write data, schema and spec; the tables depend on each other, so that all are chosen."""
        work = self.folder / "work"
        work.mkdir(parents=True)
        self.out.parent.mkdir()
        lines = ["age,sex,marital,wage"]
        for number in range(600):
            age = (5, 25, 70)[number % 3]
            marital = ("single", "married", "widowed")[number % 3]
            lines.append(f"{age},{'female' if number % 3 else 'male'},{marital},{number % 16}")
        if self.kind == "refused":
            lines.append("5,male,married,3")
        (work / "again.yaml").write_text(AGAIN)
        (work / "town.csv").write_text("\n".join(lines) + "\n")
        (work / "town.schema.yaml").write_text(SCHEMA)
        self.spec.write_text(SPEC + KINDS[self.kind])
        if self.kind == "linked":
            self._prepare_linked(work)
        return self

    def _prepare_linked(self, work: Path) -> None:
        """Write data, schema and spec of linked tables, whose columns depend on each other."""
        homes, people = ["home,tenure"], ["home,nr,age,sex"]
        for number in range(300):
            homes.append(f"{number},{'own' if number % 3 else 'rent'}")
            for member in range(1, number % 3 + 2):
                age = (70, 25, 5)[(number + member) % 3]
                people.append(f"{number},{member},{age},{'female' if member % 2 else 'male'}")
        (work / "homes.csv").write_text("\n".join(homes) + "\n")
        (work / "people.csv").write_text("\n".join(people) + "\n")
        (work / "town.schema.yaml").write_text(LINKED_SCHEMA)
        self.spec.write_text(LINKED_SPEC)

    def environment(self) -> dict[str, str]:
        """Return what tells the program where this place is."""
        named = {"DP_RELEASE_HOME": str(self.home), "DP_RELEASE_STATE": str(self.state)}
        return named if self.url is None else named | {"DP_RELEASE_LEDGER": self.url}

    def results(self) -> Mapping[str, bytes]:
        """Return the noisy results that have their name."""
        return {path.name: path.read_bytes() for path in self.noisy.glob("*.noise")}


def record(place: Place) -> None:
    """Note every point that is met from here on."""
    with contextlib.suppress(FileNotFoundError):
        place.recorded.unlink()
    # Opened beforehand, by its number: what notes the points is no point.
    handle = os.open(place.recorded, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    write = os.write

    def note(point: Point) -> None:
        write(handle, (json.dumps(astuple(point)) + "\n").encode())

    Instrument([place.folder], note).install()


def die_at(place: Place, point: Point) -> None:
    """Let this process be killed at a point."""

    def die(met: Point) -> None:
        if met == point:
            os.kill(os.getpid(), signal.SIGKILL)

    Instrument([place.folder], die).install()


def recorded_points(place: Place) -> list[Point]:
    """Return what `record` noted, in order."""
    return [Point(*json.loads(line)) for line in place.recorded.read_text().splitlines()]


def work(place: Place) -> None:
    """Open the account if it is not there, and make the release, or go on with it.

    As a person does who runs `ledger open`, `run`, and after a crash `resume`; where the crash came
    before the run was known by its name, that person runs the spec again. One who was publishing a
    held release asks for that again.
    """
    from dp_core.errors import Held, SchemaViolation, Unpublished
    from flows.release import carry_out
    from tasks.confidential import connection
    from tasks.run.home import home, open_ledger
    from tasks.support.run_folder import RunFolder
    from tests.confidential_side import InThisProcess

    # The points at which it dies are those of both sides.
    connection.connect = lambda *_: InThisProcess()
    spec, out = place.spec, place.out
    folder = RunFolder(home(), place.release)
    if folder.exists():
        spec, out = folder.recorded_paths()
        ledger = open_ledger(home())
        held = ledger.reservation(place.release)
        if held is not None and ledger.gate(held).decided == "publish":
            _decide(place, ledger)
            return
        if held is not None and held.outcome == "returned":
            return  # the person knows that the data refused
    else:
        _open_account(place)
    try:
        carry_out(spec, out, perform=lambda task, *given: task.fn(*given))
    except Held:
        _decide(place, open_ledger(home()))
    except Unpublished:
        if place.kind != "failed":
            raise
    except SchemaViolation:
        if place.kind != "refused":
            raise


def _decide(place: Place, ledger: Ledger) -> None:
    """Look at the held release once, and publish or withdraw it."""
    from flows.cli.actions import publication_decisions

    held = ledger.reservation(RELEASE)
    assert held is not None
    if not ledger.gate(held).looks:
        publication_decisions.look(place.home, ledger, RELEASE, **BY)
    if place.kind == "published":
        publication_decisions.publish(place.home, ledger, RELEASE, out=None, **BY)
    else:
        publication_decisions.withdraw(place.home, ledger, RELEASE, **BY)


def _open_account(place: Place) -> None:
    from dp_core.kernel.cost.composition import Terms
    from tasks.run.home import home, open_ledger

    ledger = open_ledger(home())
    if ledger.find_account(RELEASE) is not None:
        return
    ledger.open_account(
        RELEASE,
        terms=Terms("basic", Fraction(2), Fraction("1e-5")),
        neighbours="add-remove",
        unit="household" if place.kind == "linked" else "row",
        by="officer",
        reason="test",
    )


def inspect(place: Place) -> dict[str, Any]:
    """Return what is wrong with a finished release: nothing, if all is well.

    Raises:
        ReleaseError: if the ledger does not verify or cannot be opened.
    """
    from dp_core.bundle.verification.verify import verify
    from dp_core.plan.plan import make_plan
    from tasks.ledger.anchors.anchor_notes import HEAD, read_notes
    from tasks.run.earlier_releases import load_release
    from tasks.run.home import home_key, open_ledger

    wrong: list[str] = []
    if ENDS[place.kind] == "finished":
        checks = verify(place.out).checks
        wrong += [f"bundle: {check.sentence}" for check in checks if not check.passed]
    # Read before the ledger is opened, which notes what a killed process could not.
    files = place.home / HEAD, *place.state.glob("*.json")
    noted = [note.position for file in files for note in read_notes(file).values()]
    ledger = open_ledger(place.home)
    ledger.verify(home_key(place.home, ledger))
    if noted != [ledger.head().position] * 2:
        wrong.append(f"the head is {ledger.head().position}, and noted is {noted}")
    if [path.suffix for path in sorted(place.state.iterdir())] != [".json", ".lock"]:
        wrong.append(f"notes: {sorted(path.name for path in place.state.iterdir())}")
    reservation = ledger.reservation(place.release)
    assert reservation is not None
    # However often a release was killed, it is one attempt, with one verdict.
    attempts, refused = ledger.attempts(RELEASE), int(place.kind == "refused")
    if (attempts.refused, attempts.recent, attempts.open) != (refused, refused, 0):
        wrong.append(f"the account has {attempts}")
    if place.kind == "refused":
        wrong += _wrong_after_refusal(place, ledger)
        return {"wrong": wrong, "drawn_again": False}
    if reservation.outcome != ENDS[place.kind]:
        wrong.append(f"the reservation is {reservation.outcome}")
    gate = ("hold", "look", "decide") if place.kind in ("published", "withdrawn") else ()
    met = ledger.entries(
        kinds=("hold", "look", "decide", "settle"), reservation=reservation.position
    )
    if [entry.receipt.kind for entry in met] != [*gate, "settle"]:
        wrong.append(f"it ended by {[entry.receipt.kind for entry in met]}")
    charges = ledger.charges(reservation)
    plan = make_plan(load_release(place.spec))
    for stage, cost in plan.costs.items():
        spent = sum((charge.cost for charge in charges if charge.stage == stage), Fraction(0))
        if spent != cost:
            wrong.append(f"stage {stage} spent {spent}, and its plan is {cost}")
    balance, privacy = ledger.account(RELEASE).balance, plan.spec.privacy
    if (balance.spent.main, balance.spent.delta) != (privacy.epsilon, privacy.delta):
        wrong.append(f"the account spent {balance.spent}")
    if (balance.reserved.main, balance.reserved.delta) != (0, 0):
        wrong.append(f"the account has {balance.reserved} reserved")
    wrong += wrong_charges(charges, plan, place.run_folder)
    for name in ("codes", "models", "synthetic"):
        if (place.run_folder / "public" / name).exists():
            wrong.append(f"{name} are left")
    # In the home itself half-written notes and keys may stay: nothing ever reads them.
    bundle = place.out if ENDS[place.kind] == "finished" else None
    left = [path.name for path in place.out.parent.iterdir() if path != bundle]
    left += [path.name for path in place.run_folder.rglob("*") if _is_temporary(path)]
    if left:
        wrong.append(f"files are left: {', '.join(sorted(left))}")
    return {"wrong": wrong, "drawn_again": any(charge.draws > 1 for charge in charges)}


def wrong_charges(charges: Sequence[Charge], plan: Plan, run: Path) -> list[str]:
    """Return what is wrong with the charges and the files of a finished release."""
    wrong: list[str] = []
    if len({(charge.stage, charge.step) for charge in charges}) != len(charges):
        wrong.append("a step is charged twice")
    if not all(charge.result for charge in charges):
        wrong.append("a charge is not committed")
    if sum((charge.cost for charge in charges), Fraction(0)) != plan.currency.limit:
        wrong.append("the total is not the plan's")
    noisy = {path.name for path in (run / "public" / "noisy").glob("*")}
    if noisy != {f"{charge.batch}.noise" for charge in charges}:
        wrong.append(f"noisy results: {sorted(noisy)}")
    if (run / "confidential").exists():
        wrong.append("confidential files are left")
    return wrong


def _wrong_after_refusal(place: Place, ledger: Ledger) -> list[str]:
    """Return what is wrong with a release that the data refused."""
    wrong = []
    kinds = [entry.kind for entry in ledger.entries(release=RELEASE)]
    if kinds != ["reserve", "examine", "input", "verdict", "settle"]:
        wrong.append(f"the ledger has {kinds}")
    balance = ledger.account(RELEASE).balance
    if balance.used.main or balance.used.delta:
        wrong.append(f"the account has {balance}")
    if list(place.out.parent.iterdir()):
        wrong.append("something was published")
    if not (place.run_folder / "internal" / "message.txt").is_file():
        wrong.append("the internal folder does not say why")
    return wrong


def _is_temporary(path: Path) -> bool:
    return path.suffix in (".tmp", ".partial") or path.name.startswith(".")
