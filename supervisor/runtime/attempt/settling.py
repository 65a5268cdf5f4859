"""Settling: all that follows from one result has happened before the agent is given the next one.

Why: "How a result comes to an agent" in docs/project/architecture.md.

What follows from a result is the step of the task that was given it, what that step schedules, what this schedules, and
so on, until all of it waits: for an operation, or for something outside. These steps are *hot*. A step that a timer, a
thread or a socket brings about is not hot, nor is a step of another attempt or of the runner. Steps are counted, not
ticks or seconds, so neither a busy loop nor a slow machine changes the path of an agent.

How steps are followed
    Trio tells an instrument which task is scheduled by whom. On asyncio, `call_soon` of the loop is covered by an
    attribute of the loop: callbacks run in the order in which they are registered (asyncio documents that), so a mark
    before a callback and one after it tell when it runs. Both are in place only while something is hot.

Rules
- This is the one module besides `testing` that knows the backends: anyio does not say which task schedules which.
- A loop whose `call_soon` cannot be covered is not followed: results are given as soon as the one before was taken.
- A task that waits for a commit is hot from its landing on, since a cancellation schedules nothing that is scheduled.
- A chain of DEEPEST steps that never waits for anything is let go: no agent that spins holds anybody up.
- An error in what is done when an attempt has settled suspends that attempt. It never reaches the loop: trio drops an
  instrument that raises, and every run would hang.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar
from typing import TYPE_CHECKING, Any, Final, Protocol

import sniffio
from anyio.lowlevel import RunVar

from supervisor.logs import FactLog

if TYPE_CHECKING:
    import asyncio

log = FactLog(__name__)

DEEPEST: Final = 1000  # steps in a row


class Owner(Protocol):
    """Whose steps are followed: an attempt."""

    def has_settled(self) -> None:
        """No step is hot any more. Whoever is woken here is hot, too."""

    def fell(self, error: Exception) -> None:
        """`has_settled` has raised this."""


class Settling:
    """The hot steps of one attempt: those that are scheduled, and the one that runs."""

    __slots__ = ("_owner", "_probe", "held", "hot")

    def __init__(self, owner: Owner) -> None:
        self.hot = 0
        self.held = 0
        """How many of them wait for the disk."""
        self._owner = owner
        self._probe = _find_probe()

    def begin(self) -> None:
        """The agent was given something: what the current step does from here on follows from it."""
        self._probe.begin(self)

    @property
    def may_go_on(self) -> bool:
        """Whether all has happened but for what the current step itself is going to do."""
        return not self.hot or (self.hot == 1 and self._probe.runs(self))

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Hold the next result while the agent waits for the disk in a place where a re-run does not wait."""
        self.hot += 1
        self.held += 1
        try:
            yield
        finally:
            self.held -= 1
            self._probe.begin(self)
            self.end_step()

    def coming_step(self) -> "ComingStep":
        """Return the step in which a task goes on that is about to wait for a commit."""
        return ComingStep(self)

    def end_step(self) -> None:
        self.hot -= 1
        if self.hot:
            return
        try:
            self._owner.has_settled()
        except Exception as error:  # noqa: BLE001 # the loop runs this, and has no use for it
            self._fall(error)

    def _fall(self, error: Exception) -> None:
        log.error("settling.failed", attempt=repr(self._owner), reason=repr(error))
        try:
            self._owner.fell(error)
        except Exception as another:  # noqa: BLE001 # as above
            log.error("settling.failed", attempt=repr(self._owner), reason=repr(another))


class ComingStep:
    """The step in which a task of an agent goes on when a commit has landed (journal.Step). It is hot from the landing
    on: what was given in the same commit, or is given until that step runs, may cancel the task."""

    __slots__ = ("_is_coming", "_settling")

    def __init__(self, settling: Settling) -> None:
        self._settling = settling
        self._is_coming = False

    def come(self) -> None:
        """The commit has landed, and the task is being woken."""
        self._settling.hot += 1
        self._is_coming = True

    def arrive(self) -> None:
        """The task has gone on, or does not wait any more."""
        if self._is_coming:
            self._is_coming = False
            self._settling.begin()
            self._settling.end_step()


_OWNER: Final[ContextVar[Settling | None]] = ContextVar("supervisor_settling", default=None)


def own(settling: Settling) -> None:
    """The current task, and those that it starts from now on, belong to an attempt."""
    _OWNER.set(settling)


@contextmanager
def disowned() -> Iterator[None]:
    """What is started meanwhile belongs to no attempt, whoever starts it."""
    token = _OWNER.set(None)
    try:
        yield
    finally:
        _OWNER.reset(token)


class _Probe(Protocol):
    """Follows the steps of one loop."""

    def begin(self, settling: Settling) -> None:
        """The step that runs is hot from here on."""

    def runs(self, settling: Settling) -> bool:
        """Whether a hot step of this attempt runs."""


class _Blind:
    """Of a loop that cannot be followed."""

    def begin(self, settling: Settling) -> None:
        pass

    def runs(self, settling: Settling) -> bool:
        return False


class _TrioProbe:
    """An instrument, while anything is hot."""

    def __init__(self) -> None:
        import trio  # not before there is a loop of trio: who uses asyncio need not wait for the import

        self._lowlevel: Any = trio.lowlevel
        self._scheduled: dict[Any, tuple[Settling, int]] = {}
        """The hot steps to come, by task, and how many led to each."""
        self._now: Settling | None = None
        self._depth = 0
        self._is_on = False

    def begin(self, settling: Settling) -> None:
        self._depth = 0
        if self._now is settling:
            return
        if not self._is_on:
            self._is_on = True
            self._lowlevel.add_instrument(self)
        before, self._now = self._now, settling
        settling.hot += 1
        if before is not None:
            before.end_step()

    def runs(self, settling: Settling) -> bool:
        return self._now is settling

    def task_scheduled(self, task: Any) -> None:
        now = self._now
        if now is not None and self._depth < DEEPEST and task.context.get(_OWNER) is now:
            self._scheduled[task] = now, self._depth + 1
            now.hot += 1

    def before_task_step(self, task: Any) -> None:
        self._now, self._depth = self._scheduled.pop(task, (None, 0))

    def after_task_step(self, task: Any) -> None:
        if (now := self._now) is None:
            return
        self._depth = 0
        try:
            now.end_step()
        finally:
            self._now = None
            if not self._scheduled:
                self._is_on = False
                self._lowlevel.remove_instrument(self)


class _LoopProbe:
    """Covers `call_soon` of an asyncio loop, while anything is hot."""

    def __init__(self, loop: "asyncio.AbstractEventLoop") -> None:
        import asyncio  # as for trio

        self._current_task = asyncio.current_task
        self._loop = loop
        self._usual: Any = loop.call_soon
        self._before: list[Any] = []
        """What stood in the place of ours, where that was not the method of the class."""
        self._is_in_place = False
        self._now: Settling | None = None
        self._depth = 0
        self._taker: Any = None
        """The task whose step became hot as it ran: other steps may run before the mark. None: between two marks."""
        self._marks = 0
        """How many marks have yet to run that end a hot step."""

    def begin(self, settling: Settling) -> None:
        if self.runs(settling):
            self._depth = 0
            return
        self._cover()
        settling.hot += 1
        self._now, self._depth, self._taker = settling, 0, self._current_task(self._loop) or self
        self._usual(self._leave, settling)

    def runs(self, settling: Settling) -> bool:
        return self._now is settling and (self._taker is None or self._taker is self._current_task(self._loop))

    def _cover(self) -> None:
        self._marks += 1
        place = vars(self._loop)
        if not (self._is_in_place and "call_soon" in place):
            self._before = [place["call_soon"]] if "call_soon" in place else []
            self._usual = self._loop.call_soon
            place["call_soon"] = self._call_soon
            self._is_in_place = True

    def _uncover(self) -> None:
        self._marks -= 1
        place = vars(self._loop)
        if (
            not self._marks and place.get("call_soon") == self._call_soon
        ):  # else somebody has covered ours, and calls it
            self._is_in_place = False
            if self._before:
                place["call_soon"] = self._before.pop()
            else:
                del place["call_soon"]

    def _call_soon(self, callback: Any, *args: Any, context: Context | None = None) -> Any:
        now = self._now
        if now is None or self._depth >= DEEPEST or not self.runs(now):
            return self._usual(callback, *args, context=context)
        if (_OWNER.get() if context is None else context.get(_OWNER)) is not now:
            return self._usual(callback, *args, context=context)
        self._usual(self._enter, now, self._depth + 1)
        now.hot += 1
        self._marks += 1
        try:
            return self._usual(callback, *args, context=context)
        finally:  # in debug mode the loop refuses some callbacks
            self._usual(self._leave, now)

    def _enter(self, settling: Settling, depth: int) -> None:
        self._now, self._depth, self._taker = settling, depth, None

    def _leave(self, settling: Settling) -> None:
        self._now, self._depth, self._taker = settling, 0, None
        try:
            settling.end_step()
        finally:
            self._now = None
            self._uncover()


_PROBE: Final[RunVar[_Probe]] = RunVar("supervisor_settling_probe")


def _find_probe() -> _Probe:
    """Return the one of this loop."""
    try:
        return _PROBE.get()
    except LookupError:
        probe = _make_probe()
        _PROBE.set(probe)
        return probe


def _make_probe() -> _Probe:
    if sniffio.current_async_library() == "trio":
        return _TrioProbe()
    import asyncio

    loop = asyncio.get_running_loop()
    return _LoopProbe(loop) if _can_be_covered(loop) else _Blind()


def _can_be_covered(loop: "asyncio.AbstractEventLoop") -> bool:
    """Whether an attribute of the loop goes before the method of its class."""
    place, usual = getattr(loop, "__dict__", {}), loop.call_soon
    if "call_soon" in place:
        return True
    place["call_soon"] = mark = object()
    found = loop.call_soon
    del place["call_soon"]
    return found is mark and loop.call_soon == usual
