"""Checks a request before an endpoint sees it: its token, its rate, and its body.

The body of a request without a valid token is never read. The JSON of a body is read strictly: no
repeated keys, no NaN, exact numbers.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
)
from starlette.responses import JSONResponse

from dp_core.errors import ReleaseError
from dp_core.text.documents.typed_text import MAX_NUMBER_LENGTH
from flows.desk.asked_question import MOST_CHARACTERS
from flows.desk.service.tokens import Token, TokenStore, UnknownToken

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

OPEN = ("/healthz", "/openapi.json")
"""Paths that need no token."""
LONGEST_TOKEN = 200
MINUTE = 60.0
HEADERS = {"cache-control": "no-store", "x-content-type-options": "nosniff"}
"""Headers of every reply."""
NO_TOKEN = (
    "This needs a valid token in the header `Authorization: Bearer TOKEN`; the privacy officer"
    " issues tokens."
)


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the service.

    Attributes:
        requests: Requests of one user in any minute; 60 by default.
        concurrent: Simultaneous requests of one user; 4 by default.
        open_questions: Open questions of one user; 5 by default.
        day: New questions of one user in any 24 hours, including those that cost nothing; 200 by
            default.
        queue: Open questions of all users; 100 by default.
        body: Bytes of one request's body; 16 KiB by default.
        patience: Seconds within which the headers of a request, and its body, must arrive; 10 by
            default.
        exchange: Seconds within which the client must read the reply; 120 by default.
        connections: Simultaneous connections; 200 by default. A further one closes the oldest
            without a valid token, of the address that has most connections.
        answer: Seconds that one answer may take before its process is interrupted; an hour by
            default.
        tick: Seconds between updates of the states that users see; 10 by default; with 0 they are
            always current.
    """

    requests: int = 60
    concurrent: int = 4
    open_questions: int = 5
    day: int = 200
    queue: int = 100
    body: int = 1 << 14
    patience: float = 10.0
    exchange: float = 120.0
    connections: int = 200
    answer: float = 3600.0
    tick: float = 10.0


class RequestRate:
    """Counts the requests of each user in the last minute.

    Args:
        most: Largest number of requests of one user in any minute.
        clock: Returns seconds; the monotonic clock by default.
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._seen: dict[Hashable, deque[float]] = {}
        self._lock = threading.Lock()

    def admit(self, user: Hashable) -> int:
        """Count one request; return 0, or the seconds until the user may send one again.

        A refused request does not count.
        """
        with self._lock:
            now = self._clock()
            seen = self._seen.setdefault(user, deque())
            while seen and seen[0] <= now - MINUTE:
                seen.popleft()
            if len(seen) >= self._most:
                return max(1, math.ceil(seen[0] + MINUTE - now))
            seen.append(now)
            return 0


class Gate:
    """An ASGI application that lets valid requests through to another one.

    It adds to the request's scope `token` (the token itself, for the admission) and `holder`.

    Args:
        app: The application with the endpoints.
        tokens: The tokens.
        rate: Counts the requests of each user.
        limits: Limits of size, time and concurrent requests.
    """

    def __init__(
        self, app: ASGIApp, *, tokens: TokenStore, rate: RequestRate, limits: Limits
    ) -> None:
        self._app, self._tokens, self._rate, self._limits = app, tokens, rate, limits
        self._under_way: Counter[tuple[str, str]] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        try:
            if scope["path"] in OPEN:
                await self._pass_on(scope, b"", receive, send)
                return
            scope["token"], scope["holder"] = self._holder(scope)
            user = scope["holder"].account, scope["holder"].user
            with self._one_more(user):
                await self._pass_on(scope, await self._body(scope, receive), receive, send)
        except Refused as refused:  # the application sends its own
            await refused.reply()(scope, receive, send)

    async def _pass_on(self, scope: Scope, body: bytes, receive: Receive, send: Send) -> None:
        # If a client does not read its reply in time, the server closes the connection.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._limits.exchange):
                await self._app(scope, _replaying(body, receive), send)

    @contextlib.contextmanager
    def _one_more(self, user: tuple[str, str]) -> Iterator[None]:
        """Count one more concurrent request of a user.

        Raises:
            Refused: if the user has as many as allowed.
        """
        if self._under_way[user] >= self._limits.concurrent:
            raise Refused(
                429,
                f"You already have {self._limits.concurrent} requests in progress; wait for one of"
                " them.",
                retry_after=1,
            )
        self._under_way[user] += 1
        try:
            yield
        finally:
            self._under_way[user] -= 1

    def _holder(self, scope: Scope) -> tuple[str, Token]:
        given = [value for name, value in scope["headers"] if name == b"authorization"]
        kind, _, secret = (given[0] if len(given) == 1 else b"").partition(b" ")
        if kind.lower() != b"bearer" or not 0 < len(secret) <= LONGEST_TOKEN:
            raise Refused(401, NO_TOKEN)
        text = secret.decode("latin-1")
        try:
            holder = self._tokens.holder(text)  # a small file
        except UnknownToken:
            raise Refused(401, NO_TOKEN) from None
        except ReleaseError:
            raise Refused(503, "The service cannot read its tokens now; try again later.") from None
        if seconds := self._rate.admit((holder.account, holder.user)):
            raise Refused(
                429,
                f"More than {self._limits.requests} requests in a minute; try again in"
                f" {seconds} s.",
                retry_after=seconds,
            )
        return text, holder

    async def _body(self, scope: Scope, receive: Receive) -> bytes:
        """Return the body.

        Raises:
            Refused: if it is too large or too slow.
        """
        most = self._limits.body
        for name, value in scope["headers"]:
            if name == b"content-length" and (not value.isdigit() or int(value[:20]) > most):
                raise Refused(413, f"The body has more than {most} bytes.")
        found = bytearray()
        try:
            async with asyncio.timeout(self._limits.patience):
                while True:
                    message = await receive()
                    if message["type"] != "http.request":
                        raise Refused(
                            400, "The connection was closed before the body was complete."
                        )
                    found += message.get("body", b"")
                    if len(found) > most:
                        raise Refused(413, f"The body has more than {most} bytes.")
                    if not message.get("more_body", False):
                        return bytes(found)
        except TimeoutError:
            raise Refused(408, "The body did not arrive in time.") from None


class Refused(Exception):
    """A request that is answered with an error.

    Args:
        status: HTTP status.
        sentence: What is wrong.
        retry_after: Seconds after which to try again; None if that does not help.
    """

    def __init__(self, status: int, sentence: str, *, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.retry_after = status, sentence, retry_after

    def reply(self) -> JSONResponse:
        """Return the reply."""
        headers = dict(HEADERS)
        if self.status == 401:
            headers["www-authenticate"] = "Bearer"
        if self.retry_after is not None:
            headers["retry-after"] = str(self.retry_after)
        if self.status in (400, 408, 413):
            headers["connection"] = "close"  # the rest of the body is not read
        return JSONResponse({"error": self.sentence}, self.status, headers=headers)


def _replaying(body: bytes, receive: Receive) -> Receive:
    """Return a `receive` that gives the application the body that was already read."""
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay


class Asked(BaseModel):
    """A question and its epsilon as text, so that 0.1 stays exactly 0.1."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)
    question: Annotated[
        str,
        StringConstraints(
            strip_whitespace=True,
            min_length=1,
            max_length=MOST_CHARACTERS,
            pattern=r"^\P{Cc}*$",  # no control characters
        ),
        Field(description="A table or a regression, such as `mean of income by sex`."),
    ]
    epsilon: Annotated[
        str,
        BeforeValidator(lambda given: str(given) if isinstance(given, Decimal) else given),
        StringConstraints(strip_whitespace=True, min_length=1, max_length=MAX_NUMBER_LENGTH),
        Field(
            description='Epsilon of the answer, above 0, such as "0.1" or "1/10".',
            json_schema_extra={"type": ["string", "number"]},
        ),
    ]


def read_asked(body: bytes) -> Asked:
    """Return the question in a request's body.

    Raises:
        Refused: with 400 if the body is not JSON, with 422 if it is not a question.
    """
    try:
        found = json.loads(
            body.decode("utf-8"),
            parse_float=Decimal,
            parse_int=Decimal,
            parse_constant=_refuse_constant,
            object_pairs_hook=_without_doubles,
        )
    except (ValueError, RecursionError):
        raise Refused(
            400,
            "The body is not valid JSON in UTF-8; send, for example,"
            ' {"question": "mean of income by sex", "epsilon": "0.1"}.',
        ) from None
    try:
        return Asked.model_validate(found)
    except ValidationError:
        raise Refused(
            422,
            "The body must be an object with exactly the keys `question`, which has 1 to"
            f" {MOST_CHARACTERS:,} characters, without control characters, and `epsilon`, which is"
            f' a number, such as 0.1, or a text, such as "1/10", of at most {MAX_NUMBER_LENGTH}'
            " characters.",
        ) from None


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a key occurs twice")
    return found
