"""Requests of another program that have no answer yet: which of them a message is for, and when a decision is used.

    request saved -> asked in a branch of its number -> decided -> a message waits for the answer -> answered

The program sends a message, and waits for its answer. It may die meanwhile, or give up: then the request stays without
a message, and the program asks for the same call again in another one. A Desk is the session of a program that does so
for as long as it runs, with no turns: Claude Code's permission requests, a proxied MCP server.

Rules
- A decision belongs to the request, and only an answer uses it: an approved call begins only while a message waits.
- A message is given to a request for the same call that has none: to the oldest one that is decided, or else to the
  oldest one. So equal requests stand for each other, and each message takes one of them.
- The number of a request names its branch, and no other request of the session has it.
- At a desk the program asks when it likes, so no attempt can repeat the order of its requests. The state is saved
  before a request is asked. A later attempt begins with the saved requests.

Interrupts of LangGraph are no such requests: no message waits for them. The graph's thread keeps each under an id, and
gives the answer to the node that waits, in any process (langgraph/guard.py).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar, cast

import anyio
import msgspec
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from supervisor.core.errors import SupervisorError
from supervisor.seam.context import Context
from supervisor.seam.runs import Run

A = TypeVar("A")
M = TypeVar("M")
R = TypeVar("R")
S = TypeVar("S")
O = TypeVar("O", bound="OpenRequest[Any, Any]")  # noqa: E741 # of OpenRequests
_STEPS: Final = 100  # what waits is reached in fewer


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
        self._know(message)

    @property
    def is_decided(self) -> bool:
        return self.is_approved

    def meet(self, message: M) -> None:
        """The program asks for the same call again."""
        self.message = message
        self._know(message)
        self._came.set()
        self.wake()

    def _know(self, message: M | None) -> None:
        if isinstance(message, Asking):
            message.request = self

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


class Asking(Generic[R]):
    """One message to a desk: it waits for the reply, and says whether it has taken it."""

    request: Any = None
    """The OpenRequest that it is given to."""

    def __init__(self) -> None:
        self.reply: R | None = None
        self.is_answered = anyio.Event()
        self.is_over = anyio.Event()
        """The reply was written, or the program has left."""
        self.was_written = False

    def give(self, reply: R) -> None:
        if self.reply is None:
            self.reply = reply
            self.is_answered.set()

    def written(self) -> None:
        self.was_written = True
        self.is_over.set()

    async def wait(self) -> R:
        """Wait for the reply. A message that is cancelled gives up; its request stays."""
        try:
            await self.is_answered.wait()
        except BaseException:
            self.request.leave(self)
            self.is_over.set()
            raise
        assert self.reply is not None
        return self.reply


class Desk(ABC, Generic[O, R]):
    """The requests of one session, between the connection, whose messages wait for an R, and the agent that asks.
    `no_talk`: the answer to each message of a person. `over`: what the end of the session means for the program."""

    def __init__(self, no_talk: str, over: str) -> None:
        self._no_talk = no_talk
        self._over = over
        self._open: OpenRequests[O] = OpenRequests()
        self._new: list[Any] = []
        self._came = anyio.Event()
        self._is_settled = anyio.Event()
        """The agent serves, or the session was closed."""
        self._closed: R | None = None

    async def follow(self, run: Run[None]) -> None:
        """Wait until the session has ended, or cannot go on. Then refuse everything."""
        try:
            outcome = await run.outcome()
        except SupervisorError as error:
            self._close(self._refusal(f"no person can be asked: {error}"))
        else:
            self.end(run.session, outcome.kind, outcome.cause)

    def end(self, session: str, kind: str, cause: str | None) -> None:
        """Refuse everything: the session has ended, like this. A message that comes later hears it, too."""
        why = f" ({cause})" if cause else ""
        self._close(self._refusal(f"session {session} was {kind}{why}, and {self._over}", kind))

    def _close(self, refusal: R) -> None:
        self._closed = refusal
        self._is_settled.set()
        for each in self._open.values():
            if each.message is not None:
                each.message.give(refusal)

    def _announce(self, new: Any) -> None:
        self._new.append(new)
        self._came.set()

    def _resume(self, ctx: Context, kind: type[S], make: Callable[[Any], O]) -> S:
        """Take up the saved state, which has the `requests` that an earlier attempt left, and the `last` number."""
        saved: Any = kind() if ctx.saved is None else msgspec.convert(ctx.saved, kind)
        self._open = OpenRequests((each.number, make(each)) for each in saved.requests)
        self._open.last = saved.last
        return cast(S, saved)

    async def _attend(self, ctx: Context, tasks: TaskGroup) -> None:
        """Bring all that is open or announced to its end, as long as the program runs."""
        for each in [*self._open.values()]:
            tasks.start_soon(self._carry, ctx, each)
        tasks.start_soon(self._refuse_messages, ctx)
        self._is_settled.set()
        while True:
            new, self._new, self._came = self._new, [], anyio.Event()
            for each in new:
                tasks.start_soon(self._begin, ctx, each)
            await self._came.wait()

    async def _begin(self, ctx: Context, new: Any) -> None:
        """Save what is new, so that a later attempt knows it, and bring it to its end."""
        await self._save(ctx)
        await self._carry(ctx, new)

    async def _save(self, ctx: Context) -> None:
        await ctx.save(msgspec.to_builtins(self._saved()))

    async def _refuse_messages(self, ctx: Context) -> None:
        """Answer each message. As long as this waits for one, the watchdog's clock stands."""
        while True:
            await ctx.receive()
            await ctx.send(self._no_talk)

    @abstractmethod
    def _refusal(self, text: str, kind: str = "") -> R:
        """Return the reply that says this. `kind`: how the session has ended."""

    @abstractmethod
    async def _carry(self, ctx: Context, new: Any) -> None:
        """Bring what was announced to its end."""

    @abstractmethod
    def _saved(self) -> Any:
        """Return the state of the session."""


async def cancel_again(scope: anyio.CancelScope) -> None:
    """Withdraw what an earlier attempt was withdrawing when its process died, once it waits again."""
    for _ in range(_STEPS):
        await checkpoint()
    scope.cancel()


async def nothing(arguments: Any) -> None:
    """The effect of a tool that is never called."""
