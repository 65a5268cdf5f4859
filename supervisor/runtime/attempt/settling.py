"""Settling: before the agent is given a result, everything that follows from the previous result has happened.

Why: "How a result comes to an agent" in docs/project/architecture.md.

A result causes a step of the task that is given it. That step schedules other steps, these schedule more, and so on,
until all these tasks wait for an operation or for an outside event. These steps are *hot*. A step that a timer, a
thread or a socket causes is not hot, until it begins tasks that run together (Context.task_group), or ends a model
call. Neither is a step of another attempt or of the runner. Steps are counted, not
ticks or seconds, so neither a busy loop nor a slow machine changes the path of an agent.

How steps are followed
    Trio tells an instrument when a task is scheduled and when it runs. On asyncio, an attribute of the loop covers the
    loop's `call_soon`. Callbacks run in the order in which they are registered (asyncio documents that), so a mark
    before a callback and a mark after it tell when it runs. Both means are in place only while a step is hot.

Rules
- Only this module and `testing` know the backends: anyio does not say which task schedules which.
- If the `call_soon` of a loop cannot be covered, steps are not followed: a result is given as soon as the previous one
  was taken.
- A task that waits for a commit, or for what an operation waits for, is hot from the instant at which it is woken: it
  is scheduled then, so a later cancellation would schedule nothing that could be followed.
- A chain of DEEPEST steps that never waits is no longer followed: so an agent that spins does not block its results.
- If the code that runs when an attempt has settled raises, the attempt is suspended. The exception never reaches the
  loop: trio removes an instrument that raises, and then every run would hang.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, Final, Protocol
from weakref import ref

import anyio
import sniffio
from anyio.lowlevel import RunVar

from supervisor.system.logs import FactLog

if TYPE_CHECKING:
    import asyncio

log = FactLog(__name__)

DEEPEST: Final = 1000  # steps in a row


class Owner(Protocol):
    """The attempt whose steps are followed."""

    def has_settled(self) -> None:
        """No step is hot any more. A task that this call wakes is hot again."""

    def settling_failed(self, error: Exception) -> None:
        """`has_settled` has raised this error."""


class Settling:
    """Counts the hot steps of one attempt: the scheduled ones, and the one that runs."""

    __slots__ = ("_owner", "_probe", "held", "hot")

    def __init__(self, owner: Owner) -> None:
        self.hot = 0
        self.held = 0
        """The number of hot steps that wait for the disk."""
        self._owner = owner
        self._probe = _find_probe()

    def begin(self) -> None:
        """Make the rest of the current step hot: the agent was given a result in it."""
        self._probe.begin(self)

    @property
    def may_go_on(self) -> bool:
        """Whether no step is hot, except perhaps the current one."""
        return not self.hot or (self.hot == 1 and self._probe.runs(self))

    @property
    def may_be_timed(self) -> bool:
        """Whether its tasks may have set a timer of the loop, as `asyncio.timeout` does."""
        return self._probe.may_be_timed(self)

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Hold the next result while the agent waits for the disk at a point where a replay does not wait."""
        self.hot += 1
        self.held += 1
        try:
            yield
        finally:
            self.held -= 1
            self._probe.begin(self)
            self.end_step()

    def coming_step(self) -> "ComingStep":
        """Return the step in which the current task will continue, for a task that is about to wait for a commit."""
        return ComingStep(self)

    def end_step(self) -> None:
        self.hot -= 1
        if self.hot:
            return
        try:
            self._owner.has_settled()
        except Exception as error:  # noqa: BLE001 # the loop runs this, and must not see the error
            self._report(error)

    def _report(self, error: Exception) -> None:
        log.error("settling.failed", attempt=repr(self._owner), reason=repr(error))
        try:
            self._owner.settling_failed(error)
        except Exception as another:  # noqa: BLE001 # as above
            log.error("settling.failed", attempt=repr(self._owner), reason=repr(another))


class ComingStep:
    """The step in which a task of an agent continues after a commit (journal.Step). It is hot from the landing on: a
    result of the same commit, or one that is given before that step runs, may cancel the task."""

    __slots__ = ("_is_coming", "_settling")

    def __init__(self, settling: Settling) -> None:
        self._settling = settling
        self._is_coming = False

    def come(self) -> None:
        """The commit has landed, and the task is about to continue."""
        self._settling.hot += 1
        self._is_coming = True

    def arrive(self) -> None:
        """The task has continued, or has stopped waiting."""
        if self._is_coming:
            self._is_coming = False
            self._settling.begin()
            self._settling.end_step()


class Waiters:
    """Tasks of an agent that wait for one thing, which happens once. Enter it around the wait, for its event.

    The next steps of the tasks are hot from the instant at which they are woken. A cancellation that comes after it
    would schedule nothing that could be followed.
    """

    __slots__ = ("_number", "_settling", "_woken")

    def __init__(self, settling: Settling) -> None:
        self._settling = settling
        self._number = 0
        self._woken = anyio.Event()

    def __enter__(self) -> anyio.Event:
        self._number += 1
        return self._woken

    def __exit__(self, *error: object) -> None:
        if self._woken.is_set():
            self._settling.begin()
            self._settling.end_step()
        else:
            self._number -= 1

    def wake(self) -> None:
        """Wake the tasks. Call this once: a later wait needs new Waiters."""
        self._settling.hot += self._number
        self._woken.set()


_OWNER: Final[ContextVar[Settling | None]] = ContextVar("supervisor_settling", default=None)


def own_tasks(settling: Settling) -> None:
    """Let the current task, and the tasks that it starts from now on, belong to an attempt."""
    _OWNER.set(settling)


@contextmanager
def disowned() -> Iterator[None]:
    """Tasks that are started inside this context belong to no attempt, even if an agent's task starts them."""
    token = _OWNER.set(None)
    try:
        yield
    finally:
        _OWNER.reset(token)


class _Probe(Protocol):
    """Follows the steps of one loop."""

    def begin(self, settling: Settling) -> None:
        """Make the current step hot from here on."""

    def runs(self, settling: Settling) -> bool:
        """Return whether the current step is a hot step of this attempt."""

    def may_be_timed(self, settling: Settling) -> bool:
        """Return whether a timer of the loop that no scope shows may go off in a task of this attempt."""


class _Blind:
    """The probe of a loop that cannot be followed."""

    def begin(self, settling: Settling) -> None:
        pass

    def runs(self, settling: Settling) -> bool:
        return False

    def may_be_timed(self, settling: Settling) -> bool:
        return True


class _TrioProbe:
    """A trio instrument, added while a step is hot."""

    def __init__(self) -> None:
        import trio  # only in a loop of trio: a user of asyncio does not pay for the import

        self._lowlevel: Any = trio.lowlevel
        self._scheduled: dict[Any, tuple[Settling, int]] = {}
        """The hot steps that are scheduled, by task, and the depth of each chain."""
        self._now: Settling | None = None
        self._depth = 0
        self._is_on = False

    def __dir__(self) -> tuple[str, ...]:
        """Name the hooks, and nothing else: trio looks at every attribute each time an instrument is added."""
        return ("after_task_step", "before_task_step", "task_scheduled")

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

    def may_be_timed(self, settling: Settling) -> bool:
        return False

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
    """Covers `call_soon` of an asyncio loop while a step is hot."""

    def __init__(self, loop: "asyncio.AbstractEventLoop") -> None:
        import asyncio  # as for trio

        self._current_task = asyncio.current_task
        self._loop = loop
        self._usual: Any = loop.call_soon
        self._before: list[Any] = []
        """The attribute that ours replaced, if there was one besides the method of the class."""
        self._is_in_place = False
        self._now: Settling | None = None
        self._depth = 0
        self._taker: Any = None
        """The task whose step became hot while it ran: other steps may run before its mark. None between two marks."""
        self._marks = 0
        """The number of marks that end a hot step and have yet to run."""

    def begin(self, settling: Settling) -> None:
        if self.runs(settling):
            self._depth = 0
            return
        self._cover()
        settling.hot += 1
        self._now, self._depth, self._taker = settling, 0, self._current_task(self._loop) or self
        self._usual(self._leave, settling, context=_naming_the_library())

    def runs(self, settling: Settling) -> bool:
        return self._now is settling and (self._taker is None or self._taker is self._current_task(self._loop))

    def may_be_timed(self, settling: Settling) -> bool:
        timers = getattr(self._loop, "_scheduled", None)
        return timers is None or any(each._context.get(_OWNER) is settling and not each.cancelled() for each in timers)  # noqa: SLF001

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
        if not self._marks and place.get("call_soon") == self._call_soon:  # else other code has covered ours
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
        finally:  # in debug mode the loop raises for some callbacks
            self._usual(self._leave, now, context=_naming_the_library())

    def _enter(self, settling: Settling, depth: int) -> None:
        self._now, self._depth, self._taker = settling, depth, None

    def _leave(self, settling: Settling) -> None:
        self._now, self._depth, self._taker = settling, 0, None
        try:
            settling.end_step()
        finally:
            self._now = None
            self._uncover()


def _naming_the_library() -> Context | None:
    """Return the context for a callback that uses anyio: outside of tasks, sniffio knows the library from the context
    only. None if the current context names it, as in loops that anyio has started. `asyncio.run` names nothing."""
    if sniffio.current_async_library_cvar.get() is not None:
        return None
    context = copy_context()
    context.run(sniffio.current_async_library_cvar.set, "asyncio")
    return context


_PROBE: Final[RunVar[Callable[[], _Probe | None]]] = RunVar("supervisor_settling_probe")
"""Returns the probe of a loop. A probe that refers to its loop is owned by it: here it would keep both for ever."""


def _find_probe() -> _Probe:
    """Return the probe of this loop."""
    try:
        found = _PROBE.get()()
    except LookupError:
        found = None
    return _make_probe() if found is None else found


def _make_probe() -> _Probe:
    probe: _Probe
    if sniffio.current_async_library() == "trio":
        probe = _TrioProbe()
        _PROBE.set(lambda: probe)
        return probe
    import asyncio

    loop = asyncio.get_running_loop()
    if _can_be_covered(loop):
        vars(loop)["_supervisor_probe"] = probe = _LoopProbe(loop)
        _PROBE.set(ref(probe))
    else:
        probe = _Blind()
        _PROBE.set(lambda: probe)
    return probe


def _can_be_covered(loop: "asyncio.AbstractEventLoop") -> bool:
    """Return whether an attribute of the loop can replace the method of its class."""
    place, usual = getattr(loop, "__dict__", {}), loop.call_soon
    if "call_soon" in place:
        return True
    place["call_soon"] = mark = object()
    found = loop.call_soon
    del place["call_soon"]
    return found is mark and loop.call_soon == usual
