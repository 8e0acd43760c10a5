"""How much one user may ask of the service."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass

MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of the service.

    Attributes:
        requests: Requests of one user in any minute; 60 by default.
        concurrent: Requests of one user that may be under way at one time; 4 by default.
        open_questions: Questions of one user that are not ended; 5 by default.
        day: New questions of one user in any 24 hours, also those that cost nothing; 200 by
            default.
        queue: Questions of all users that are not ended; 100 by default.
        body: Bytes of one request's body; 16 KiB by default.
        patience: Seconds until a request's head and body must have arrived; 10 by default.
        exchange: Seconds until the reply must have been taken; 120 by default.
        connections: Connections at one time; further ones are answered with 503. 200 by default.
        answer: Seconds that one answer may take before its process is interrupted; an hour by
            default.
        tick: Seconds between two moments at which the states that users see are renewed; 10 by
            default, 0 for always.
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
        most: Requests of one user in any minute.
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
