"""A bell wakes all tasks that wait for it now. It makes an event only when a task waits, since there is one bell in
every attempt, and one rings at every commit.

A task that comes after the ringing waits for the next one. So test the condition first, and wait without an await
between the two.
"""

import anyio


class Bell:
    __slots__ = ("_event",)

    def __init__(self) -> None:
        self._event: anyio.Event | None = None

    def ring(self) -> None:
        if (event := self._event) is not None:
            self._event = None
            event.set()

    def next(self) -> anyio.Event:
        """Return the event that the next ringing sets."""
        if self._event is None:
            self._event = anyio.Event()
        return self._event

    async def wait(self) -> None:
        """Wait for the next ringing."""
        await self.next().wait()
