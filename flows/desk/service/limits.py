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
