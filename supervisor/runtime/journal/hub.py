"""Facts come up by subscription: whoever waits for news under a key is woken, and reads the store from its own cursor.

Nothing is handed over here but the fact that there is something new, so nobody can be held up by a slow reader, miss an
entry, or see one twice. Take the event before reading, wait for it after: then there is no gap.

Signs of life of what a session's calls do (output, heartbeats) are told in the same way under `sign_key`, and are the
one thing that no journal holds: only the last one's time is kept, in memory (W7).
"""

from datetime import datetime, timedelta
from typing import Final

import anyio

from supervisor.core import events as e
from supervisor.core.machine import ASKS, ENDS_APPROVAL

INBOX = "inbox"
INBOX_EVENTS: Final = ASKS | ENDS_APPROVAL | e.having("reminds")
"""What changes what is pending; a request that nobody is asked about wakes a reader for nothing, which is cheap."""
SIGNS_APART = timedelta(seconds=0.1)  # a chatty command wakes nobody more often


def end_key(session: str) -> str:
    """Return the key under which a run's end is news: who waits for that is not woken by everything else."""
    return f"={session}"


def sign_key(session: str) -> str:
    """Return the key under which a session's signs of life are news; no session's id begins so."""
    return f"~{session}"


class Hub:
    def __init__(self) -> None:
        self._events: dict[str, anyio.Event] = {}
        self.signs: dict[str, datetime] = {}
        """When what a session's calls do was last heard of, for sessions that have an attempt here."""

    def news(self, key: str) -> anyio.Event:
        """Return the event that the next news under this key sets: a session's id, or INBOX."""
        return self._events.setdefault(key, anyio.Event())

    def publish(self, key: str) -> None:
        if (event := self._events.pop(key, None)) is not None:
            event.set()

    def sign(self, session: str, now: datetime) -> None:
        """What a call of the session does shows life: for whoever looks on, and no clock (W7)."""
        last = self.signs.get(session)
        if last is None or not last <= now < last + SIGNS_APART:
            self.signs[session] = now
            self.publish(sign_key(session))

    def publish_all(self) -> None:
        """Wake everybody: the store has died, and each must be told."""
        for key in list(self._events):
            self.publish(key)
