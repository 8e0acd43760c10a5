"""The service as an operator starts it: it is killed within an answer, and goes on."""

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from fractions import Fraction

import httpx
import pytest

from dp_core.bundle.verification.verify import verify
from dp_core.kernel.cost.composition import Terms
from flows.desk.desk import find_desk, open_desk
from flows.desk.kept_questions import KeptQuestions
from flows.desk.service.tokens import TokenStore
from tests.flows.desk.conftest import WHO
from tests.processes import ROOT

pytestmark = pytest.mark.slow
SECONDS = 600
"""Until a test gives up."""

DESK = """\
version: 1
account: town
data: town.csv
schema: town.schema.yaml
privacy: {delta: 0}
largest_epsilon: 1/2
users:
  anna: {account: town-anna}
  ben: {account: town-ben}
"""


@pytest.fixture
def desk(project):
    """An open desk for two users, who may spend epsilon 1 and 1/4."""
    for name, epsilon in (("town-anna", Fraction(1)), ("town-ben", Fraction(1, 4))):
        project.open_account(name, terms=Terms("basic", epsilon, Fraction(0)), within="town")
    (project.folder / "questions.yaml").write_text(DESK)
    return open_desk(project.folder / "questions.yaml", project.ledger(), **WHO)


def _without_server():
    """Return the environment without a Prefect server that somebody configured."""
    return {name: value for name, value in os.environ.items() if name != "PREFECT_API_URL"}


class Running:
    """A service, and a client of each user.

    Attributes:
        process: The service.
        url: Where it listens.
        log: What it said on standard error.
    """

    def __init__(self, secrets):
        self._secrets = secrets
        self.log = ""
        self.start()

    def start(self):
        """Start the service, and wait until it listens."""
        words = ["desk", "serve", "--port", "0", "--tick", "0", "--requests", "100000"]
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "flows.cli.main", *words],
            env={**_without_server(), "PYTHONPATH": str(ROOT)},
            stderr=subprocess.PIPE,
            text=True,
        )
        line = self.process.stderr.readline()
        self.url = re.search(r"http://127\.0\.0\.1:\d+", line)[0]

    def send(self, method, path, user="anna", **more):
        """Send a request; return the reply."""
        header = {"authorization": f"Bearer {self._secrets[user]}"}
        return httpx.request(method, self.url + path, headers=header, timeout=SECONDS, **more)

    def ask(self, question, user="anna", epsilon="0.1"):
        """Ask a question; return its number."""
        body = {"question": question, "epsilon": epsilon}
        found = self.send("POST", "/v1/questions", user, json=body)
        assert found.status_code == 202, found.text
        return found.json()["id"]

    def ended(self, number, user="anna"):
        """Wait until a question is ended; return what the service says of it."""
        until = time.monotonic() + SECONDS
        while True:
            found = self.send("GET", f"/v1/questions/{number}", user).json()
            if found["state"] not in ("waiting", "running"):
                return found
            assert time.monotonic() < until, found
            time.sleep(0.2)

    def kill(self):
        """Kill the service itself, with nothing that it started."""
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()

    def stop(self):
        """Stop the service as systemd does; return its exit code and what it said."""
        self.process.send_signal(signal.SIGTERM)
        _, said = self.process.communicate(timeout=SECONDS)
        self.log += said
        return self.process.returncode


@pytest.fixture
def running(project, desk):
    tokens = TokenStore(project.home)
    found = Running({user: tokens.issue("town", user)[0] for user in desk.terms.users})
    yield found
    if found.process.poll() is None:
        found.stop()


def test_a_question_is_answered_after_the_service_was_killed_and_is_paid_once(running, project):
    number = running.ask("count by sex, marital")
    # It is killed when the release has begun to spend.
    until = time.monotonic() + SECONDS
    while "charge" not in project.kinds():
        state = running.send("GET", f"/v1/questions/{number}").json()["state"]
        assert state in ("waiting", "running")
        assert time.monotonic() < until
        time.sleep(0.05)
    running.kill()
    running.start()
    assert running.ask("count by sex, marital") == number  # a client that repeats its request
    found = running.ended(number)
    assert found["state"] == "answered"
    assert found["answer"]["cost"]["epsilon"] == 0.1
    ledger = project.ledger()
    (paid,) = ledger.uses("town-anna")
    assert paid.amount.main == Fraction(1, 10)
    steps = [entry.body["step"] for entry in ledger.entries(kinds=("charge",))]
    assert len(steps) == len(set(steps)) > 0
    kept = KeptQuestions(find_desk("town"))
    assert [each.number for each in kept.all()] == [number]
    assert verify(kept.bundle(number)).exit_code == 0
    assert running.send("GET", f"/v1/questions/{number}/bundle").content[:2] == b"PK"
    assert running.send("GET", f"/v1/questions/{number}", "ben").status_code == 404

    # An allowance of 1/4 pays for one of two questions that were admitted at the same time.
    both = [running.ask(each, "ben", "0.2") for each in ("count by age", "count by moved")]
    states = [running.ended(each, "ben")["state"] for each in both]
    assert states == ["answered", "refused"]
    assert [each.amount.main for each in ledger.uses("town-ben")] == [Fraction(1, 5)]

    assert running.stop() == 0
    assert re.search(r"user=ben account=town id=2 answered cost=1/5", running.log)
    assert "count by" not in running.log
    for secret in running._secrets.values():
        assert secret not in running.log
        for path in project.home.rglob("*"):
            with contextlib.suppress(OSError):
                assert not path.is_file() or secret.encode() not in path.read_bytes(), path
