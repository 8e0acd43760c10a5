"""The queue: answers one question at a time, users take turns."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence

from dp_core.errors import ReleaseError
from flows.desk.service.open_desks import OpenDesks
from flows.desk.service.service_records import AdmittedQuestion, Outcome, ServiceRecords
from flows.desk.service.tokens import TokenStore

LOG = logging.getLogger("dp_release.questions")
FIRST_PAUSE_S = 5.0
"""Pause after the first failed attempt at a question; it doubles with each."""
APPROVAL_PAUSE_S = 60.0
"""Seconds after which a question whose plan awaited approval is tried again."""
POLL_S = 2.0
"""Seconds between two looks at the desks, because approvals and new tokens come from elsewhere."""


def next_question(
    waiting: Sequence[AdmittedQuestion], served: Mapping[tuple[str, str], int]
) -> AdmittedQuestion | None:
    """Return the question to answer next: users in turn, each user's questions in order.

    Args:
        waiting: Questions that wait; those of each desk in order of admission.
        served: Running number of the turn in which each user (account and name) was last served.
            Users without one come first.

    Returns:
        The question; None if none waits.
    """
    first: dict[tuple[str, str], AdmittedQuestion] = {}
    for each in sorted(waiting, key=lambda one: one.number):
        first.setdefault((each.account, each.user), each)
    if not first:
        return None
    turn = min(first, key=lambda user: (served.get(user, -1), first[user].number, user))
    return first[turn]


class Queue:
    """Answers admitted questions until it is stopped.

    Args:
        desks: The desks.
        tokens: The tokens; questions of a user without a valid one wait.
        records: Outcomes of attempts.
        answer: Answers one question; returns the outcome.
    """

    def __init__(
        self,
        desks: OpenDesks,
        tokens: TokenStore,
        records: ServiceRecords,
        answer: Callable[[AdmittedQuestion], Outcome],
    ) -> None:
        self._desks, self._tokens, self._records = desks, tokens, records
        self._answer = answer
        self._served: dict[tuple[str, str], int] = {}
        self._turn = 0
        self._running: tuple[str, int] | None = None
        self._not_before: dict[tuple[str, int], float] = {}
        self._wake, self._stopped = threading.Event(), threading.Event()

    @property
    def running(self) -> tuple[str, int] | None:
        """Account and number of the question that is being answered; None if there is none."""
        return self._running

    def wake(self) -> None:
        """Make the queue look at the desks now."""
        self._wake.set()

    def stop(self) -> None:
        """Take no further question."""
        self._stopped.set()
        self._wake.set()

    def run(self) -> None:
        """Answer questions until `stop`."""
        while not self._stopped.is_set():
            try:
                worked = self.step()
            except ReleaseError as error:
                LOG.error("The queue cannot work: %s", type(error).__name__)
                worked = False
            if not worked:
                self._wake.wait(POLL_S)
                self._wake.clear()

    def step(self) -> bool:
        """Answer one question; return whether one was waiting."""
        question = next_question(self._waiting(), self._served)
        if question is None:
            return False
        key = question.account, question.number
        self._turn += 1
        self._served[question.account, question.user] = self._turn
        self._running = key
        try:
            outcome = self._answer(question)
        finally:
            self._running = None
        if outcome.state == "interrupted":
            return True  # the service is ending
        failures = 0
        if outcome.state != "answered":
            failures = self._records.keep_outcome(*key, outcome)
        if outcome.state == "failed":
            self._not_before[key] = time.monotonic() + FIRST_PAUSE_S * 2 ** (failures - 1)
        elif outcome.state == "awaiting approval":
            self._not_before[key] = time.monotonic() + APPROVAL_PAUSE_S
        LOG.info(
            "user=%s account=%s id=%s %s cost=%s%s",
            *(question.user, question.account, question.number, outcome.state, outcome.cost),
            f" runbook={outcome.row}" if outcome.row else "",
        )
        return True

    def _waiting(self) -> list[AdmittedQuestion]:
        """Return the questions that may be answered now: of those asked here, not by `desk ask`.

        One that awaited the approval of its plan is tried again after `APPROVAL_PAUSE_S`.
        """
        asked, now = self._desks.questions(), time.monotonic()
        known = {(each.account, each.user) for each in self._tokens.valid()}
        taken = self._records.taken_questions()
        return [
            each
            for each, raw in zip(self._records.with_outcomes(asked), asked, strict=True)
            if raw.state == "waiting" and each.state in ("waiting", "awaiting approval")
            if (each.account, each.user) in known and (each.account, each.number) in taken
            if self._not_before.get((each.account, each.number), now) <= now
        ]
