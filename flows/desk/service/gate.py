"""Checks a request before an endpoint sees it: its token, its rate, and the size of its body.

The body of a request without a valid token is never read.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dp_core.errors import ReleaseError
from flows.desk.service.tokens import Token, TokenStore, UnknownToken

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from flows.desk.service.limits import Limits, RequestRate

OPEN = ("/healthz", "/openapi.json")
"""Paths that need no token."""
LONGEST_TOKEN = 200
HEADERS = (
    (b"content-type", b"application/json"),
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
)
NO_TOKEN = (
    "This needs a valid token in the header `Authorization: Bearer TOKEN`; the privacy officer"
    " issues tokens."
)


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
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # no websockets: the server closes the connection
        try:
            if scope["path"] in OPEN:
                await self._pass_on(scope, b"", receive, send)
                return
            scope["token"], scope["holder"] = self._holder(scope)
            user = scope["holder"].account, scope["holder"].user
            with self._one_more(user):
                await self._pass_on(scope, await self._body(scope, receive), receive, send)
        except Refused as refused:  # the application sends its own
            await refused.send(send)

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

    @property
    def headers(self) -> dict[str, str]:
        """Headers that this reply has in addition to those of every reply."""
        found = {}
        if self.status == 401:
            found["www-authenticate"] = "Bearer"
        if self.retry_after is not None:
            found["retry-after"] = str(self.retry_after)
        if self.status in (400, 408, 413):
            found["connection"] = "close"  # the rest of the body is not read
        return found

    async def send(self, send: Send) -> None:
        """Send the error."""
        body = json.dumps({"error": self.sentence}, ensure_ascii=False).encode()
        own = [(name.encode(), value.encode()) for name, value in self.headers.items()]
        length = (b"content-length", str(len(body)).encode())
        await send(
            {
                "type": "http.response.start",
                "status": self.status,
                "headers": [*HEADERS, *own, length],
            }
        )
        await send({"type": "http.response.body", "body": body})


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
