"""Facts come up by subscription: whoever waits for news under a key is woken, and reads the store from its own cursor.

Nothing is handed over here but the fact that there is something new, so nobody can be held up by a slow reader, miss an
entry, or see one twice. Take the event before reading, wait for it after: then there is no gap.
"""

import anyio

INBOX = "inbox"


class Hub:
    def __init__(self) -> None:
        self._events: dict[str, anyio.Event] = {}

    def news(self, key: str) -> anyio.Event:
        """Return the event that the next news under this key sets: a session's id, or INBOX."""
        return self._events.setdefault(key, anyio.Event())

    def publish(self, key: str) -> None:
        if (event := self._events.pop(key, None)) is not None:
            event.set()

    def publish_all(self) -> None:
        """Wake everybody: the store has died, and each must be told."""
        for key in list(self._events):
            self.publish(key)
