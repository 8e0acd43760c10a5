"""A process that does random operations on a ledger and writes down what it was told.

`python -m tests.ledger_worker` forks workers on demand, so that replacing a killed one is quick:
each line on its standard input is the arguments of one worker as JSON, each line on its standard
output the number of its process. When the input ends, all of them end.

A worker's journal has a line before each operation and one after it, on disk before it goes on. An
operation without a second line is one whose outcome nobody knows.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

from dp_core.errors import ReleaseError
from dp_core.kernel.mechanisms.grant import Step
from dp_core.plan.plan import Plan
from tasks.ledger import leases
from tasks.ledger.anchors.ledger_anchor import LedgerAnchor
from tasks.ledger.ledger import Ledger
from tasks.ledger.reservations import Reservation
from tests.both_writers import BothWriters, both_writers
from tests.specs import plan_of

KEY = b"k" * 32
HOME = "home of all workers"
LIFETIME_MS = 1500
"""Of a lease: short, so that a stopped process loses it."""

ACCOUNTS = ("town", "ward", "lab", "bench")
"""`ward` is within `town`, both basic; `bench` is within `lab`, both zcdp."""

EPSILONS = ("0.25", "0.5", "1")


def make_templates(folder: Path) -> dict[str, Plan]:
    """Return a plan for each kind of release, by the first two words of its name."""
    found = {}
    for account in ACCOUNTS:
        delta = ", delta: 1e-6" if account in ("lab", "bench") else ""
        for place, epsilon in enumerate(EPSILONS):
            privacy = f"{{epsilon: {epsilon}{delta}}}"
            found[f"{account}-{place}"] = plan_of(folder, account=account, privacy=privacy)
    return found


def named(template: Plan, name: str) -> Plan:
    """Return the same plan for a release of another name."""
    document = {**template.spec.document, "release": name}
    return replace(template, spec=replace(template.spec, release=name, document=document))


def batches_of(plan: Plan) -> dict[str, list[Step]]:
    """Return the steps of each batch of a plan: all one-way tables, and each larger one."""
    found: dict[str, list[Step]] = {}
    for table in plan.tables:
        name = " x ".join(table.clique)
        event = plan.currency.noise_event(table.cost, l1=1, l2_squared=1)
        step = Step(table.stage, name, table.cost, event, (table.cells,))
        batch = "one_way" if table.stage == "one_way" else f"{table.stage} {name}"
        found.setdefault(batch, []).append(step)
    return found


Operation = Literal["bind", "charge", "attempt", "commit", "settle"]


class Journal:
    """What one worker and those that replaced it asked for and were told."""

    def __init__(self, path: Path) -> None:
        self.operations = 0
        if path.exists():
            with path.open() as file:
                lines = [line for line in file if '"event": "ask"' in line]
            self.operations = sum('"operation"' in line for line in lines)
        self._handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, event: str, **values: object) -> None:
        """Put a line on disk."""
        line = {"event": event, "time": time.monotonic_ns(), **values}
        os.write(self._handle, json.dumps(line).encode() + b"\n")
        os.fsync(self._handle)

    def ask(self, what: str, do: Callable[[], Mapping[str, object]], **values: object) -> bool:
        """Do something, with a line before and after; return whether it was done."""
        if what != "hold":
            self.operations += 1
            values["operation"] = self.operations
        self.write("ask", what=what, **values)
        try:
            result = do()
        except (ReleaseError, ValueError) as error:
            text = getattr(error, "message", str(error))
            self.write("refused", what=what, error=type(error).__name__, text=text, **values)
            return False
        self.write("done", what=what, **values, **result)
        return True


def anchor_in(folder: Path, url: str) -> LedgerAnchor:
    """Return the anchor that all workers share."""
    return LedgerAnchor(folder / "home", folder / "state", url)


class Worker:
    """Holds releases and does random things to them."""

    def __init__(self, url: str, folder: Path, index: int, operations: int, seed: int) -> None:
        self._random = random.Random(seed)
        self._ledger = Ledger(url, None, anchor_in(folder, url))
        self._journal = Journal(folder / f"{index}.jsonl")
        self._templates = make_templates(folder / f"specs-{index}")
        self._index = index
        self._operations = operations

    def run(self) -> None:
        """Work until enough operations were begun, by this process or those before it."""
        self._journal.write("start", process=os.getpid())
        while self._journal.operations < self._operations:
            name = self._choose()
            plan = named(self._templates["-".join(name.split("-")[:2])], name)
            held: list[BothWriters] = []
            with contextlib.ExitStack() as stack:

                def enter(name: str = name, stack: Any = stack, held: Any = held) -> dict[str, Any]:
                    held.append(stack.enter_context(both_writers(self._ledger, name, HOME)))
                    return {"fence": held[0].lease.fence}

                if self._journal.ask("hold", enter, release=name):
                    self._work(held[0], plan)
        self._journal.write("end")

    def _choose(self) -> str:
        """Return a new release, or one that somebody began, dead or alive."""
        known = self._ledger.releases()
        if known and self._random.random() < 0.5:
            name = self._random.choice(known[-24:])
            found = self._ledger.reservation(name)
            if found is None or found.outcome is None or self._random.random() < 0.2:
                return name
        weights = (5, 2, 2, 1)
        account = self._random.choices(ACCOUNTS, weights)[0]
        size = self._random.randrange(len(EPSILONS))
        return f"{account}-{size}-by{self._index}-{self._journal.operations}"

    def _work(self, writer: BothWriters, plan: Plan) -> None:
        for _ in range(self._random.randint(2, 10)):
            if self._journal.operations >= self._operations:
                return
            if not self._operate(writer, plan) and self._random.random() < 0.3:
                return

    def _operate(self, writer: BothWriters, plan: Plan) -> bool:
        name, fence = plan.spec.release, writer.lease.fence
        reservation = writer.reservation()
        if reservation is None or reservation.outcome is not None:

            def reserve() -> dict[str, object]:
                return {"position": writer.reserve(plan).position}

            return self._journal.ask("reserve", reserve, release=name, fence=fence, plan=plan.hash)
        batches = batches_of(plan)
        what, batch = self._next(writer, reservation, list(batches))
        values = {"release": name, "fence": fence, "position": reservation.position}
        if what in ("charge", "attempt", "commit"):
            values["batch"] = batch
        if what == "bind":
            values["input"] = f"data of {name}"
        if what == "commit":
            values["result"] = f"{self._random.getrandbits(64):064x}"
        if what == "settle":
            outcomes = ("finished", "abandoned", "returned")
            values["outcome"] = self._random.choice(outcomes)
            charged = bool(writer.charges(reservation))
            values["stored"] = charged and self._random.random() < 0.5

        def do() -> dict[str, object]:
            return _do(writer, reservation, what, values, batches)

        return self._journal.ask(what, do, **values)

    def _next(
        self, writer: BothWriters, reservation: Reservation, batches: list[str]
    ) -> tuple[Operation, str]:
        """Return what comes next in a release, or something at random, and a batch."""
        if self._random.random() < 0.3:
            what = self._random.choice(get_args(Operation))
            return what, self._random.choice(batches)
        charges = writer.charges(reservation)
        charged = {charge.batch: charge.result for charge in charges}
        if not charges and self._random.random() < 0.5:
            return "bind", ""
        for batch in batches:
            if batch not in charged:
                return "charge", batch
            if charged[batch] is None:
                return "commit", batch
        return "settle", ""


def _do(
    writer: BothWriters,
    reservation: Reservation,
    what: str,
    values: Mapping[str, Any],
    batches: Mapping[str, list[Step]],
) -> dict[str, object]:
    match what:
        case "bind":
            writer.bind_input(reservation, values["input"], KEY)
        case "charge":
            batch = values["batch"]
            charges = writer.charge(reservation, batch, batches[batch])
            return {"numbers": [charge.number for charge in charges]}
        case "attempt":
            if not writer.charges(reservation, values["batch"]):
                raise ValueError("Not charged.")
            writer.record_redraw(reservation, values["batch"])
        case "commit":
            writer.commit(reservation, values["batch"], values["result"])
        case "settle":
            writer.settle(reservation, values["outcome"], stored=values["stored"])
    return {}


def serve() -> None:
    """Fork a worker for each line of the input; at its end, end all of them."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    for line in sys.stdin:
        url, folder, index, operations, seed = json.loads(line)
        process = os.fork()
        if process == 0:
            try:
                leases.LIFETIME_MS = LIFETIME_MS
                Worker(url, Path(folder), index, operations, seed).run()
            except BaseException:
                Path(folder, f"{index}.crash").write_text(traceback.format_exc())
            finally:
                os._exit(0)
        os.write(1, f"{process}\n".encode())
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    serve()
