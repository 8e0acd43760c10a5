"""The endpoints of the service, `/v1`."""

from __future__ import annotations

import io
import logging
import re
import threading
import time
import zipfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from dp_core.errors import BadInput, BudgetRefused, ReleaseError
from flows.desk.service.gate import (
    HEADERS,
    NO_TOKEN,
    Asked,
    Gate,
    Limits,
    Refused,
    RequestRate,
    read_asked,
)
from flows.desk.service.open_desks import NotAllowed, OpenDesks
from flows.desk.service.service_records import OPEN, AdmittedQuestion, ServiceRecords
from flows.desk.service.tokens import Token, TokenStore, UnknownToken

LOG = logging.getLogger("dp_release.questions")
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")
UNAVAILABLE = (
    "The service cannot reach its ledger or files now; the log of the service names the reason."
    " Try again later."
)


class Service:
    """What the endpoints do.

    Args:
        desks: The desks.
        tokens: The tokens.
        records: Counts of admissions, and outcomes of attempts.
        limits: Limits of the service.
        admitted: Called after each admission, to wake the queue.
        running: Returns the account and number of the question that is being answered.
    """

    def __init__(
        self,
        desks: OpenDesks,
        tokens: TokenStore,
        records: ServiceRecords,
        limits: Limits,
        *,
        admitted: Callable[[], object] = lambda: None,
        running: Callable[[], tuple[str, int] | None] = lambda: None,
    ) -> None:
        self.desks, self.tokens, self.records, self.limits = desks, tokens, records, limits
        self._admitted, self._running = admitted, running
        self._admission = threading.Lock()
        self._renewal = threading.Lock()
        self._shown: dict[tuple[str, int], AdmittedQuestion] = {}
        self._is_new = True

    def plan(self, holder: Token, body: bytes) -> Mapping[str, Any]:
        """Return what a question would cost."""
        asked = read_asked(body)
        return self.desks.plan(holder.account, holder.user, asked.question, asked.epsilon)

    def ask(self, secret: str, body: bytes) -> dict[str, Any]:
        """Admit a question; return its number and state.

        Raises:
            Refused: if the request is invalid, or too many questions are open.
        """
        asked = read_asked(body)
        # One admission at a time, so that two requests together cannot exceed a limit. The token
        # cannot be revoked before the admission is durable.
        try:
            with self._admission, self.tokens.hold(secret) as holder:
                return self._admit(holder, asked.question, asked.epsilon)
        except UnknownToken:
            raise Refused(401, NO_TOKEN) from None

    def _admit(self, holder: Token, question: str, epsilon: str) -> dict[str, Any]:
        account, user = holder.account, holder.user
        before = self._all()
        self._require_room(holder, question, epsilon, before)
        number = self.desks.admit(account, user, question, epsilon)
        self.records.take(account, number)
        known = {(each.account, each.number): each.state for each in before}
        state = known.get((account, number))
        if state is None:
            self.records.count_admission(account, user)
        LOG.info("user=%s account=%s id=%s admitted epsilon=%s", user, account, number, epsilon)
        if state in ("refused", "failed"):  # asking again retries the question
            self.records.forget_outcome(account, number)
            with self._renewal:
                self._shown.pop((account, number), None)
        self._admitted()
        return {"id": number, "state": self._own(holder, number).state}

    def _require_room(
        self, holder: Token, question: str, epsilon: str, before: Sequence[AdmittedQuestion]
    ) -> None:
        """Refuse a question if the user or the queue has too many, unless it adds no work.

        Raises:
            Refused: with 429.
        """
        account, user = holder.account, holder.user
        open_now = [each for each in before if each.state in OPEN]
        own = sum((each.account, each.user) == (account, user) for each in open_now)
        if own >= self.limits.open_questions:
            sentence = (
                f"You have {own} open questions, and at most {self.limits.open_questions} are"
                " allowed; wait until one of them is answered."
            )
        elif len(open_now) >= self.limits.queue:
            sentence = "The queue of the service is full; try again later."
        elif self.records.admissions(account, user) >= self.limits.day:
            sentence = (
                f"You asked {self.limits.day} new questions in the last 24 hours, and no more are"
                " allowed; try again later."
            )
        else:
            return
        if not self.desks.is_known(account, user, question, epsilon):
            raise Refused(429, sentence, retry_after=60)

    def questions(self, holder: Token) -> dict[str, Any]:
        """Return the user's own questions and their states."""
        self._look()
        own = [
            each
            for each in list(self._shown.values())
            if (each.account, each.user) == (holder.account, holder.user)
        ]
        return {"questions": [_summary(each) for each in own]}

    def question(self, holder: Token, number: int) -> dict[str, Any]:
        """Return one of the user's own questions, with the answer if there is one."""
        found = self._own(holder, number)
        answer = self.desks.answer(found.account, number) if found.state == "answered" else None
        return _summary(found) | ({} if answer is None else {"answer": answer})

    def bundle(self, holder: Token, number: int) -> bytes:
        """Return the bundle of an answered question as a ZIP file."""
        found = self._own(holder, number)
        if found.state != "answered":
            raise Refused(409, f"Question {number} is not answered; its state is {found.state}.")
        return zip_folder(self.desks.bundle(found.account, number))

    def _own(self, holder: Token, number: int) -> AdmittedQuestion:
        """Return one of the user's own questions.

        Raises:
            Refused: with 404 if there is none; another user's question is treated as missing.
        """
        self._look()
        if (holder.account, number) not in self._shown:
            self._show_new()
        found = self._shown.get((holder.account, number))
        if found is None or found.user != holder.user:
            raise Refused(404, f"You have no question {number}.")
        return found

    def _all(self) -> list[AdmittedQuestion]:
        """Return the questions of all desks as they are now."""
        running = self._running()
        return [
            replace(each, state="running")
            if each.state == "waiting" and (each.account, each.number) == running
            else each
            for each in self.records.with_outcomes(self.desks.questions())
        ]

    def renew(self) -> None:
        """Update the states that users see to those of now."""
        with self._renewal:
            self._shown = {(each.account, each.number): each for each in self._all()}
            self._is_new = False

    def _show_new(self) -> None:
        """Add questions that were admitted since the last tick, with the state `waiting`.

        Privacy:
            How long an answer takes depends on the data and on others' questions. Users see
            states change at ticks only.
        """
        with self._renewal:
            for each in self._all():
                key = each.account, each.number
                if key not in self._shown:
                    self._shown[key] = replace(each, state="waiting", reason="")

    def _look(self) -> None:
        """Update the states at the first look, and at every look if there are no ticks."""
        if self._is_new or not self.limits.tick:
            self.renew()

    def renew_at_ticks(self, stopped: threading.Event) -> None:
        """Update the states at every multiple of the tick, until stopped; not if the tick is 0."""
        tick = self.limits.tick
        while tick and not stopped.wait(tick - time.time() % tick):
            try:
                self.renew()
            except ReleaseError as error:
                LOG.error("The states cannot be read: %s", type(error).__name__)


def _summary(question: AdmittedQuestion) -> dict[str, Any]:
    found = {
        "id": question.number,
        "question": question.question,
        "epsilon": question.epsilon,
        "state": question.state,
    }
    return found | ({"reason": question.reason} if question.reason else {})


def zip_folder(folder: Path) -> bytes:
    """Return a folder as a ZIP file; links are left out, and all times are the same."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as file:
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink():
                name = path.relative_to(folder).as_posix()
                file.writestr(zipfile.ZipInfo(name), path.read_bytes(), zipfile.ZIP_DEFLATED)
    return made.getvalue()


def _holder(request: Request) -> Token:
    holder: Token = request.scope["holder"]
    return holder


async def _body(request: Request) -> bytes:
    return await request.body()


Holder = Annotated[Token, Depends(_holder)]
Body = Annotated[bytes, Depends(_body)]


def make_application(service: Service) -> Gate:
    """Return the ASGI application of a service."""
    app = FastAPI(
        title="dp-release desk",
        version="1",
        description="Questions about confidential data; see docs/question-service.md.",
        docs_url=None,  # its page loads scripts from another host
        redoc_url=None,
        redirect_slashes=False,
    )
    content = {"application/json": {"schema": Asked.model_json_schema()}}
    body = {"requestBody": {"required": True, "content": content}}

    @app.get("/healthz", summary="Whether the service listens")
    async def healthz() -> Any:
        return {"status": "ok"}

    # Starlette runs endpoints that are no coroutines in threads.
    @app.post("/v1/plan", summary="What a question would cost; spends nothing", openapi_extra=body)
    def plan(holder: Holder, given: Body) -> Any:
        return service.plan(holder, given)

    @app.post("/v1/questions", status_code=202, summary="Ask a question", openapi_extra=body)
    def ask(request: Request, given: Body) -> Any:
        found = service.ask(request.scope["token"], given)
        where = f"/v1/questions/{found['id']}"
        return JSONResponse(found, 202, headers={"location": where})

    @app.get("/v1/questions", summary="Your questions and their states")
    def questions(holder: Holder) -> Any:
        return service.questions(holder)

    @app.get("/v1/questions/{number}", summary="One of your questions, with its answer")
    def question(holder: Holder, number: str) -> Any:
        return service.question(holder, _number(number))

    @app.get("/v1/questions/{number}/bundle", summary="The bundle of an answer, as a ZIP file")
    def bundle(holder: Holder, number: str) -> Any:
        made = service.bundle(holder, _number(number))
        name = f'attachment; filename="question-{number}.zip"'
        return Response(made, media_type="application/zip", headers={"content-disposition": name})

    @app.get("/v1/allowance", summary="What you may still spend")
    def allowance(holder: Holder) -> Any:
        return service.desks.allowance(holder.account, holder.user)

    @app.get("/v1/schema", summary="The public schema: columns and levels")
    def schema(holder: Holder) -> Any:
        return service.desks.schema(holder.account)

    @app.exception_handler(Refused)
    async def answer_refusal(_request: Request, error: Refused) -> Response:
        return error.reply()

    @app.exception_handler(NotAllowed)
    async def not_allowed(_request: Request, _error: NotAllowed) -> Response:
        sentence = "You are not a user of this desk; ask the privacy officer to add you."
        return Refused(403, sentence).reply()

    @app.exception_handler(ReleaseError)
    async def answer_failure(_request: Request, error: ReleaseError) -> Response:
        if isinstance(error, BadInput | BudgetRefused):
            return Refused(400 if isinstance(error, BadInput) else 409, error.message).reply()
        LOG.error("The service cannot work: %s (%s)", type(error).__name__, error.row or "no row")
        return Refused(503, UNAVAILABLE).reply()

    @app.exception_handler(HTTPException)
    async def unknown(_request: Request, error: HTTPException) -> Response:
        sentences = {404: "There is no such address.", 405: "This address has no such method."}
        sentence = sentences.get(error.status_code, "The request is invalid.")
        return JSONResponse({"error": sentence}, error.status_code, headers=error.headers)

    @app.middleware("http")
    async def finish(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Any:
        try:
            response = await call_next(request)
        except Exception as error:
            # privacy: neither the log nor the reply gets the error's text.
            LOG.error("An endpoint failed: %s", type(error).__name__)
            response = Refused(500, "The service failed; its log has the kind of error.").reply()
        response.headers.update(HEADERS)
        return response

    limits = service.limits
    return Gate(app, tokens=service.tokens, rate=RequestRate(limits.requests), limits=limits)


def _number(text: str) -> int:
    if not _NUMBER.fullmatch(text):
        raise Refused(404, "There is no such question.")
    return int(text)
