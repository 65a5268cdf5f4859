"""A bell: wakes everybody who waits for it now. It costs nothing while nobody does, unlike an event that is made anew
after each time: there is one in every attempt, and one rings at every commit.

Look at what you wait for first, then wait, in one step: who comes after the ringing waits for the next one.
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
        """Return the event that its next ringing sets."""
        if self._event is None:
            self._event = anyio.Event()
        return self._event

    async def wait(self) -> None:
        """Wait until it rings the next time."""
        await self.next().wait()
