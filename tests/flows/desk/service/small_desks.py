"""Desks in memory that stand for those of a home, and a client of the application."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import anyio
import httpx

from dp_core.errors import BadInput, BudgetRefused
from flows.desk.service.application import Service, make_application
from flows.desk.service.gate import Gate, Limits
from flows.desk.service.open_desks import NotAllowed
from flows.desk.service.service_records import AdmittedQuestion, Outcome, ServiceRecords
from flows.desk.service.tokens import TokenStore

ACCOUNT = "rand"
USERS = ("anna", "ben", "carl")


@dataclass
class SmallDesks:
    """One desk, whose questions are admitted in memory."""

    folder: Path
    left: Fraction = Fraction(1)
    asked: list[AdmittedQuestion] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def plan(self, account: str, user: str, question: str, epsilon: str) -> Mapping[str, Any]:
        self._require(account, user)
        self._check(question, epsilon)
        return {"cost": epsilon, "account": account, "left": str(self.left)}

    def admit(self, account: str, user: str, question: str, epsilon: str) -> int:
        self._require(account, user)
        self._check(question, epsilon)
        for each in self.asked:
            if (each.user, each.question, each.epsilon) == (user, question, epsilon):
                return each.number
        number = len(self.asked) + 1
        self.asked.append(AdmittedQuestion(account, number, user, question, epsilon, "waiting"))
        return number

    def is_known(self, account: str, user: str, question: str, epsilon: str) -> bool:
        asked = (account, user, question, epsilon)
        return asked in [(e.account, e.user, e.question, e.epsilon) for e in self.asked]

    def questions(self) -> list[AdmittedQuestion]:
        return list(self.asked)

    def answer(self, account: str, number: int) -> Mapping[str, Any]:
        return {"value": number, "of": account}

    def bundle(self, account: str, number: int) -> Path:  # noqa: ARG002
        return self.folder

    def allowance(self, account: str, user: str) -> Mapping[str, Any]:
        self._require(account, user)
        return {"left": str(self.left)}

    def schema(self, account: str) -> Mapping[str, Any]:  # noqa: ARG002
        return {"columns": [{"name": "sex", "levels": ["1", "2"]}]}

    def end(self, number: int, state: Any, reason: str = "") -> None:
        """Give a question its last state."""
        self.asked[number - 1] = replace(self.asked[number - 1], state=state, reason=reason)

    def spend(self, question: AdmittedQuestion) -> Outcome:
        """Answer a question, as the process does, from what is left."""
        with self.lock:
            cost = Fraction(question.epsilon)
            if cost > self.left:
                self.end(question.number, "refused", "Nothing is left.")
                return Outcome("refused", "Nothing is left.")
            self.left -= cost
            self.end(question.number, "answered")
            return Outcome("answered", cost=question.epsilon)

    def _require(self, account: str, user: str) -> None:
        if account != ACCOUNT or user not in USERS:
            raise NotAllowed

    def _check(self, question: str, epsilon: str) -> None:
        if "nonsense" in question:
            raise BadInput("That is no question.")
        try:
            cost = Fraction(epsilon)
        except (ValueError, ZeroDivisionError):
            raise BadInput(f"epsilon: {epsilon!r} is not a number.") from None
        if cost <= 0:
            raise BadInput("epsilon must be above 0.")
        if cost > self.left:
            raise BudgetRefused(f"It costs {epsilon}, and {self.left} is left.")


class Site:
    """A service on small desks, with a token of each user.

    Attributes:
        desks: The desks.
        tokens: The tokens.
        records: The records of the service.
        service: The service.
        app: The application.
        secrets: Token of each user.
    """

    def __init__(self, folder: Path, limits: Limits | None = None, **more: Any) -> None:
        home, bundle = folder / "home", folder / "bundle"
        bundle.mkdir(parents=True)
        (bundle / "statement.json").write_text("{}")
        self.desks, self.tokens = SmallDesks(bundle), TokenStore(home)
        self.records = ServiceRecords(home)
        self.limits = limits or Limits(tick=0, requests=10_000)
        self.service = Service(self.desks, self.tokens, self.records, self.limits, **more)
        self.app: Gate = make_application(self.service)
        self.secrets = {user: self.tokens.issue(ACCOUNT, user)[0] for user in USERS}

    def header(self, user: str) -> dict[str, str]:
        return {"authorization": f"Bearer {self.secrets[user]}"}

    def send(self, method: str, path: str, user: str | None = "anna", **more: Any) -> Any:
        """Send one request; return the response."""
        (found,) = self.send_all([(method, path, user, more)])
        return found

    def ask(self, question: str = "count by sex", epsilon: Any = "0.1", **more: Any) -> Any:
        """Ask a question; return the response."""
        body = {"question": question, "epsilon": epsilon}
        return self.send("POST", "/v1/questions", json=body, **more)

    def send_all(self, requests: list[tuple[str, str, str | None, Mapping[str, Any]]]) -> list[Any]:
        """Send requests at the same time; return the responses in their order."""
        found: list[Any] = [None] * len(requests)

        async def one(client: httpx.AsyncClient, place: int) -> None:
            method, path, user, more = requests[place]
            headers = {**(self.header(user) if user else {}), **more.get("headers", {})}
            rest = {name: value for name, value in more.items() if name != "headers"}
            found[place] = await client.request(method, path, headers=headers, **rest)

        async def run() -> None:
            transport = httpx.ASGITransport(self.app, raise_app_exceptions=True)
            async with (
                httpx.AsyncClient(transport=transport, base_url="http://service") as client,
                anyio.create_task_group() as group,
            ):
                for place in range(len(requests)):
                    group.start_soon(one, client, place)

        anyio.run(run)
        return found
