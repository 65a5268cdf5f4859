"""The pulse of a server, taken by a thread: whether it answers now, what is new in the store, and what time it is.

Theory: reads are made in the loop, and are quick as long as the server answers. A server that was stopped, or whose
machine is gone, answers nothing at all, and closes no connection. So a read that waits lets this thread ask for a sign
of life at once. Without one, the read is given up, and later reads are refused at once until the server answers again.
A long read on a server that is alive is waited for.

Rules
- A read waits PATIENCE_SECONDS for a sign of life, or SLOWNESS times as long as one took lately: on a machine that has
  too much to do, a server is slow and not away. The wait counts from the question: before this thread had its turn to
  ask, the silence says nothing about the server. Neither does its first connection, unless that takes LONGEST_SECONDS.
- What the thread has read is only a hint: under the lock each transaction looks again.
"""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

import psycopg

from supervisor.store.postgres.server import Address, Line

LOOK_SECONDS: Final = 0.1
PATIENCE_SECONDS: Final = 0.035
SLOWNESS: Final = 5
LONGEST_SECONDS: Final = 1.0
_FORGETS: Final = 0.995


class Pulse:
    """`query` is made each LOOK_SECONDS with what `parameter` returns. `tell` gets the answer and when it was asked."""

    def __init__(
        self,
        address: Address,
        query: str,
        parameter: Callable[[], Any],
        tell: Callable[[tuple[Any, ...], datetime], None],
    ) -> None:
        self._query = query
        self._parameter = parameter
        self._tell = tell
        self._stop, self._wanted = threading.Event(), threading.Event()
        self._line = Line(address, "pulse", lambda _: None, lambda _: self._stop.is_set())
        self._asked_at = self._answered_at = 0.0
        self._slow = 0.0
        self._away_since: float | None = None
        self._thread = threading.Thread(target=self._run, name="supervisor pulse", daemon=True)
        self._thread.start()

    @property
    def is_away(self) -> bool:
        return self._away_since is not None

    def away_for(self) -> float:
        """Return for how many seconds the server has been away; 0.0 if it answers."""
        since = self._away_since  # the thread sets it
        return 0.0 if since is None else time.monotonic() - since

    def _note(self, *, is_away: bool) -> None:
        self._away_since = (self._away_since or time.monotonic()) if is_away else None

    def give_up(self, waited: float) -> bool:
        """Return whether a read that has waited so long is given up. It is asked every few milliseconds."""
        self._wanted.set()
        is_asking = self._asked_at > self._answered_at
        silent = min(waited, time.monotonic() - self._asked_at) if is_asking else 0.0
        if silent > min(LONGEST_SECONDS, max(PATIENCE_SECONDS, SLOWNESS * self._slow)):
            self._note(is_away=True)
        return self.is_away

    def _run(self) -> None:
        while not self._stop.is_set():
            connection = self._line.get(wait=LOOK_SECONDS)
            if connection is None:
                self._note(is_away=self._line.down_for() > (LOOK_SECONDS if self._answered_at else LONGEST_SECONDS))
                continue
            self._wanted.clear()
            self._asked_at, asked = time.monotonic(), datetime.now(UTC)
            try:
                found = connection.execute(self._query, [self._parameter()]).fetchone()
            except psycopg.Error:
                self._line.drop()
                continue
            self._answered_at = time.monotonic()
            if not self.is_away:
                self._slow = max(self._slow * _FORGETS, self._answered_at - self._asked_at)
            self._note(is_away=False)
            if found is not None:
                self._tell(found, asked)
            self._wanted.wait(LOOK_SECONDS)

    def stop(self) -> None:
        self._stop.set()
        self._wanted.set()
        self._thread.join(timeout=5.0)
        self._line.close()
