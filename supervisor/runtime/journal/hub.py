"""Change notification: the hub wakes the subscribers of a key, and each reads the store from its own cursor.

The hub hands over no data, only the fact that there is something new. So a slow reader delays no other one, and no
reader misses an entry or sees one twice. A reader takes the event first, then reads, then waits for the event: so there
is no gap.

The hub also publishes signs of life of a session's calls (output, heartbeats) under `sign_key`. No journal holds these:
the hub keeps only the time of the last one, in memory (W7). Under `text_key` it publishes what agents are writing
(texts.py).
"""

from datetime import datetime, timedelta
from typing import Final

import anyio

from supervisor.core import events as e
from supervisor.core.approvals.state import ASKS, ENDS_APPROVAL
from supervisor.runtime.journal.texts import Texts

INBOX, ASKED = "inbox", "asked"
INBOX_EVENTS: Final = ASKS | ENDS_APPROVAL | e.having("reminds", "votes", "evidence")
"""Events that change what is pending. A call request that needs no approval wakes readers in vain, which is cheap."""
SIGNS_APART = timedelta(seconds=0.1)  # a chatty command wakes its readers no more often


def end_key(session: str) -> str:
    """Return the key for the end of a session's run. A waiter for that end is not woken by other entries."""
    return f"={session}"


def sign_key(session: str) -> str:
    """Return the key for a session's signs of life. No session id begins with its first character."""
    return f"~{session}"


def text_key(session: str) -> str:
    """Return the key for the text that a session's agent is writing."""
    return f"^{session}"


class Hub:
    def __init__(self) -> None:
        self._events: dict[str, anyio.Event] = {}
        self.texts = Texts(lambda session: self.publish(text_key(session)))
        self.signs: dict[str, datetime] = {}
        """When a call of each session last showed a sign of life, for sessions with an attempt in this process."""

    def news(self, key: str) -> anyio.Event:
        """Return the event that the next `publish` of this key sets. A key is a session's id, INBOX (what is pending
        has changed), ASKED (a call was requested), or made above."""
        return self._events.setdefault(key, anyio.Event())

    def publish(self, key: str) -> None:
        if (event := self._events.pop(key, None)) is not None:
            event.set()

    def sign(self, session: str, now: datetime) -> None:
        """Record a sign of life of a call of the session, for readers. It restarts no clock of the watchdog (W7)."""
        last = self.signs.get(session)
        if last is None or not last <= now < last + SIGNS_APART:
            self.signs[session] = now
            self.publish(sign_key(session))

    def publish_all(self) -> None:
        """Wake all subscribers: the store has died, and each must learn that."""
        for key in list(self._events):
            self.publish(key)
