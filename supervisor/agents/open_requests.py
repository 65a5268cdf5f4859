"""Requests of another program that have no answer yet: which of them a message is for, and when a decision is used.

    request saved -> asked in a branch of its number -> decided -> a message waits for the answer -> answered

The program sends a message, and waits for its answer. It may die meanwhile, or give up: then the request stays without
a message, and the program asks for the same call again in another one.

Rules
- A decision belongs to the request, and only an answer uses it: an approved call begins only while a message waits.
- A message is given to a request for the same call that has none: to the oldest one that is decided, or else to the
  oldest one. So equal requests stand for each other, and each message takes one of them.
- The number of a request names its branch, and no other request of the session has it.

Interrupts of LangGraph are no such requests: no message waits for them. The graph's thread keeps each under an id, and
gives the answer to the node that waits, in any process (langgraph/guard.py).
"""

from collections.abc import Callable
from typing import Any, Generic, TypeVar

import anyio

A = TypeVar("A")
M = TypeVar("M")
O = TypeVar("O", bound="OpenRequest[Any, Any]")  # noqa: E741 # of OpenRequests


def _nothing() -> None:
    pass


class OpenRequest(Generic[A, M]):
    """A request in this attempt. `asked`: what is saved of it; `message`: what waits for its answer, if anything."""

    def __init__(self, asked: A, message: M | None = None) -> None:
        self.asked = asked
        self.message = message
        self.is_approved = False
        """Whether it may begin when a message waits for its answer."""
        self.wake: Callable[[], None] = _nothing
        """Lets an approved call that waits look again whether it may begin."""
        self._came = anyio.Event()

    @property
    def is_decided(self) -> bool:
        return self.is_approved

    def meet(self, message: M) -> None:
        """The program asks for the same call again."""
        self.message = message
        self._came.set()
        self.wake()

    def leave(self, message: M) -> None:
        """The program does not wait for the answer to a message any more."""
        if self.message is message:
            self.message = None
            self._came = anyio.Event()

    def is_ready(self, wake: Callable[[], None]) -> bool:
        """Whether the call, which is approved, may begin: see ToolSpec.is_ready."""
        self.wake = wake
        self.is_approved = True
        return self.message is not None

    async def wait_for_message(self) -> M:
        while self.message is None:
            await self._came.wait()
        return self.message


class OpenRequests(dict[int, O]):
    """The requests of a session by their numbers. `last`: the latest number."""

    last = 0

    def next_number(self) -> int:
        self.last += 1
        return self.last

    def find(self, is_same: Callable[[O], bool]) -> O | None:
        """Return the request to which a message is given; None if it is a new one."""
        found = [(number, each) for number, each in self.items() if each.message is None and is_same(each)]
        return min(found, key=lambda each: (not each[1].is_decided, each[0]), default=(0, None))[1]
