"""One attempt: an invocation of an agent function that is in memory, and everything its operations have in common.

An attempt has two cancel scopes, external outside and watchdog inside, and one stop reason, which is None until the
attempt is stopped. `stop` sets the reason (the first one wins) and cancels, in one step. The outcome follows from the
reason, since the `cancelled_caught` of a scope cannot tell why it was cancelled (W1).

Every operation takes the same path. `enter` says whether the journal knows it, and holds it until it may begin. Its
result is in the journal already, or the operation does its work and appends it, or waits for it (`wait`). Then `take`
gives the result to the agent when its turn has come (core/replay_order.py) and everything that follows from the result
before it has happened (settling.py). All of this is one state, so the module is longer than 400 lines.

Rules
- If an operation is cancelled while the stop reason is None, then a scope of the agent's own cancelled it.
- A sealed attempt (passivated, suspended, abandoned) raises Suspended from every operation, and also from operations
  that wait inside a shielded scope of the agent. It withdraws nothing.
- Every operation yields when it begins. So neither an agent that swallows exceptions nor an agent whose operations are
  all answered at once can freeze the loop (W13).
"""

from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, TypeVar

import anyio
import msgspec
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from supervisor.core import events as e
from supervisor.core.agent_spec import AgentSpec
from supervisor.core.blocking import Block
from supervisor.core.errors import InvalidInput, RunStopping, StoreError, Suspended
from supervisor.core.machine import BEGINS_OPERATION
from supervisor.core.replay_order import ReplayOrder
from supervisor.core.session import Operation, SessionState
from supervisor.runtime.attempt.divergence import block_here, lines_here, path_block, told_operation
from supervisor.runtime.attempt.host import Host, StopReason
from supervisor.runtime.attempt.operation_ids import Names
from supervisor.runtime.attempt.settling import Settling
from supervisor.runtime.clock.alarm import Appointment
from supervisor.runtime.clock.bell import Bell
from supervisor.runtime.clock.watchdog import Watch
from supervisor.runtime.journal.writer import Entry, Plan, View

E = TypeVar("E", bound=Any)
T = TypeVar("T")


class Attempt:
    __slots__ = (
        "_held",
        "_turns",
        "_waiters",
        "asked_at",
        "asked_late",
        "block",
        "blocked",
        "external",
        "has_ended",
        "host",
        "in_flight",
        "inner",
        "instead",
        "is_finishing",
        "is_looked_at",
        "is_sealed",
        "names",
        "overdue",
        "patches",
        "quiet_since",
        "quiet_spells",
        "replay",
        "run",
        "session",
        "settling",
        "spec",
        "stop_reason",
        "stopped_at",
        "strangers",
        "task",
        "timers",
        "to_save",
        "waiting",
        "watch",
    )

    def __init__(self, host: Host, session: str, spec: AgentSpec[Any, Any]) -> None:
        self.host = host
        self.session = session
        self.spec = spec
        self.stop_reason: StopReason | None = None
        self.is_sealed = False
        self.has_ended = False
        self.external = anyio.CancelScope()
        self.inner = anyio.CancelScope()
        self.replay = ReplayOrder(self.state)
        if host.only_replays:
            self.replay.hold()
        self.run = self.state.runs
        self.names = Names(self.state)
        self.names.asked = {} if self.replay.is_replaying else None
        self.instead: dict[str, tuple[str, str, str]] = {}
        """What the agent asks for that its journal does not hold, before it has asked for all that it holds: the
        operation in words, and two lines of code (runtime/attempt/divergence.py)."""
        self.asked_at = host.alarm.now()
        """While it replays: when it asked for something last, on the alarm's clock."""
        self.task = 0
        """The task of the agent function, by its id."""
        self.strangers: frozenset[int] | None = None
        """Tasks of nobody that the backend knows, when a replay began; None if nobody has looked."""
        self.is_looked_at = False
        """Whether an alarm looks whether it gets any further."""
        self.block: Block | None = None
        """Why the attempt is blocked, once that is its stop reason."""
        self.patches: dict[str, bool] = {}
        """What the agent was told about named changes of its code (Context.patched)."""
        self.to_save: msgspec.Raw | None = None
        """The state that a save is about to write."""
        self.watch = Watch(host.watchdog, spec, self._stall)
        self.timers: dict[str, datetime] = {}
        """When its durable timers are due; a run that has one is not waiting for people alone."""
        self.waiting: dict[str, int] = {}
        """What the attempt waits for, and by how many operations (RunPassivated.waiting_for)."""
        self.in_flight = self.blocked = 0
        """`blocked`: operations that wait for the agent to ask for what its journal holds."""
        self.stopped_at = 0
        """The length of its journal when it was told to stop."""
        self.asked_late: frozenset[str] = frozenset()
        """What is new and the agent asked for after it was told to stop."""
        self.quiet_since = 0.0
        self.quiet_spells = 0
        self.overdue: Appointment | None = None
        """When it is given up, once it was told to end."""
        self.is_finishing = False
        """The agent function has returned: what is left is waiting for children."""
        self._waiters: dict[str, anyio.Event] = {}
        self._turns: dict[str | None, anyio.Event] = {}
        """Who waits for the turn of an operation; under None, for that of what has no place in the order yet."""
        self._held = Bell()
        self.settling = Settling(self)

    def __repr__(self) -> str:
        return f"<attempt of {self.spec.name} on {self.session}, stop reason {self.stop_reason}>"

    @property
    def state(self) -> SessionState:
        return self.host.journal.states[self.session]

    # -- ending ------------------------------------------------------------------------------------------------------

    def stop(self, reason: StopReason) -> None:
        """Set the stop reason and cancel, in one step; the first reason wins."""
        if self.stop_reason is not None:
            return
        self.stop_reason = reason
        self.stopped_at = self.state.length
        self.watch.disarm()
        self.host.stopped(self)
        (self.inner if reason.kind == "stalled" else self.external).cancel()
        if reason.is_pause:
            self.seal()
        else:
            self._ring_waiters()

    def seal(self) -> None:
        """Let no operation go on: those that wait still, after the cancellation, are behind a shield."""
        self.is_sealed = True
        for event in self._waiters.values():
            event.set()
        self._ring_waiters()

    def _ring_waiters(self) -> None:
        """Let those look again that wait for their turn, or for the agent to ask for what its journal holds."""
        for event in self._turns.values():
            event.set()
        self._held.ring()

    def _stall(self, cause: str) -> None:
        if self.host.is_draining:
            return  # its operations are held, and it is suspended as soon as the calls have ended
        doing = ", ".join(sorted(self.waiting)) or "nothing that the journal knows"
        if self.replay.oldest_unclaimed(self.state) is not None:
            self.stop_blocked(path_block(self, f"the agent stalled: {cause}"))
        else:
            self.stop(StopReason("stalled", f"{cause}, doing: {doing}" if self.in_flight else cause))

    def stop_blocked(self, block: Block) -> None:
        """Stop: today's code cannot follow the journal (R1). No outcome follows, and nothing is withdrawn."""
        if self.stop_reason is None:
            self.block = block
            self.stop(StopReason("blocked", block.cause))

    def read(self, operation: str | None, decode: Callable[[], T]) -> T:
        """Return a journaled value as the code's type. One that does not fit was written by other code (R1)."""
        try:
            return decode()
        except InvalidInput as misfit:
            self.stop_blocked(block_here(self, "value", operation, str(misfit)))
            raise Suspended from misfit

    # -- operations --------------------------------------------------------------------------------------------------

    def begin_operation(self) -> None:
        """Count an operation as in flight: no object for each, since so many wait."""
        self.in_flight += 1

    def end_operation(self, operation: str | None = None) -> None:
        """It is over, however it went: that is progress. By its name it lies behind the agent, and holds nobody up."""
        self.in_flight -= 1
        if operation is not None:
            self._pass_over(operation)
            self.leave_behind(operation)
        self.watch.progress()
        self.check_quiet()

    def leave_behind(self, operation: str) -> None:
        """The agent is past an operation, with its result or cut off by a scope of its own: a save forgets it."""
        if self.stop_reason is None and (
            (record := self.state.operations.get(operation)) is None or not record.is_open
        ):
            self.names.open.pop(operation, None)

    async def enter(self, operation: str) -> Operation | None:
        """Begin an operation: return what the journal knows of it, or None for a new one, which may begin now.

        The agent has asked for it by now, even if a scope of its own cancels it before it has yielded.
        """
        if operation in self.state.operations:
            self._claim(operation)
        else:
            self.names.open[operation] = self.replay.ask(self.state)
            if self.stop_reason is not None:
                self.asked_late |= {operation}
        await self.check()
        record = self.state.operations.get(operation)
        if record is None:
            if self.replay.is_replaying:
                await self._pass_barrier_with(operation)
            if operation not in self.state.kept:
                return None
            recalled = e.OperationRecalled(at=self.host.clock.now(), operation=operation)
            await self.deliver(lambda: recalled)
            return self.state.operations[operation]
        return record

    def _claim(self, operation: str) -> None:
        """The agent has asked again for what its journal holds."""
        if self.replay.is_replaying:
            self.asked_at = self.host.alarm.now()
        self.replay.claim(operation)
        if not self.replay.is_replaying:
            self.names.asked = None
            self._held.ring()
            self.host.follows(self)
        self._wake_front()

    async def check(self) -> None:
        """Raise what ends the agent, having yielded; hold it at the start of an operation while we shut down."""
        await checkpoint()
        await self.hold()
        self._check_sealed()

    async def hold(self) -> None:
        """Wait while a graceful stop lets other calls end: nothing begins during that time (R8)."""
        while self.host.is_draining and self.stop_reason is None:
            await self._held.wait()

    def _check_sealed(self) -> None:
        if self.is_sealed:
            raise Suspended

    def _check_can_come(self) -> None:
        """Raise what ends an operation whose turn cannot come. An agent that was told to stop while it was run again
        never asks for the rest of what its journal holds, and an operation behind a shield, in its clean-up, would wait
        for that."""
        self._check_sealed()
        if self.stop_reason is not None and self.replay.is_replaying:
            raise RunStopping(f"the run was told to stop while it was run again ({self.stop_reason})")

    async def refuse_if_stopping(self) -> None:
        """Raise RunStopping: no sub-agent is spawned and nobody is asked by a run that was told to stop (W8)."""
        if self.stop_reason is not None:
            await self.check()
            raise RunStopping(f"the run was told to stop ({self.stop_reason})")

    async def _pass_barrier_with(self, operation: str) -> None:
        """Pass the barrier with something new, which is what the agent asked for instead if it never does."""
        self.asked_at = self.host.alarm.now()
        asked = (self.names.asked or {}).get(operation, (operation, "", None))
        self.instead[operation] = told_operation(*asked), *lines_here(self.spec.fn.__code__)
        try:
            await self.pass_barrier()
        finally:
            del self.instead[operation]

    async def pass_barrier(self) -> None:
        """Wait until the agent has asked for all that its journal holds: nothing new begins before."""
        while self.replay.is_replaying:
            self._check_can_come()
            with self._blocking():
                await self._held.wait()

    def append(
        self, plan: Callable[[View, SessionState], Iterable[e.AnyEvent]], *, bound: bool = True
    ) -> Coroutine[Any, Any, None]:
        """Append to this session what `plan` returns. `bound`: refused for a sealed attempt, as an operation is."""
        session = self.session
        return self.append_to_many(
            lambda view: [(session, event) for event in plan(view, view.session(session))], bound=bound
        )

    async def append_if_live(self, plan: Callable[[View, SessionState], Iterable[e.AnyEvent]]) -> None:
        """Append to this session, unless the attempt was stopped or has ended. Does not raise: whatever refuses the
        entries has stopped the attempt."""
        if self.stop_reason is None and not self.has_ended:
            with suppress(Suspended):
                await self.append(plan)

    async def append_to_many(self, plan: Plan, *, bound: bool = True) -> None:
        """Append a plan that spans sessions. A store that cannot take it suspends the tree; nothing of it fails."""

        def unless_sealed(view: View) -> Iterable[Entry]:
            if bound:
                self._check_sealed()
            state = view.session(self.session)
            return [(to, self._stamped(event, state) if to == self.session else event) for to, event in plan(view)]

        try:
            more = self.goes_on if self._gives_more else None
            settling = self.settling
            await self.host.journal.append(unless_sealed, more, settling.holding, settling.coming_step())
        except StoreError as error:
            self.host.suspend_tree(self, error)
            raise Suspended from error

    def _stamped(self, event: E, state: SessionState) -> E:
        """Say in the event that begins an operation what the agent had been given when it asked for it."""
        asked = self.names.open.get(event.operation) if type(event) in BEGINS_OPERATION else None
        return event if asked is None else msgspec.structs.replace(event, given=self.replay.given_when(asked, state))

    async def abandon(
        self, event: e.OperationAbandoned, follow: Callable[[View], Iterable[Entry]] = lambda view: ()
    ) -> None:
        """A scope of the agent's own ended an operation that the journal knows. `follow`: what is journaled with it."""

        def plan(view: View) -> Iterable[Entry]:
            record = view.session(self.session).operations.get(event.operation)
            if record is None or not record.is_open or self.stop_reason is not None:
                return []
            ended = msgspec.structs.replace(event, approval=record.pending_approval)
            return [(self.session, ended), *follow(view)]

        record = self.state.operations.get(event.operation)
        if record is not None and record.is_open and self.stop_reason is None:
            with anyio.CancelScope(shield=True):  # what changed code gives up is not given up: its run may be blocked
                await self.pass_barrier()
        with self.settling.holding():
            await self.append_to_many(plan, bound=False)
        record = self.state.operations.get(event.operation)
        if record is not None and record.state == "finished":
            self._pass_over(event.operation)  # its result came in the meantime, a denial for example; nobody takes it

    async def wait(self, operation: str, key: str, is_answered: Callable[[], bool], *, is_refused: bool = True) -> None:
        """Wait for people, messages or children, with the watchdog paused. `is_refused`: by a run that was told to
        stop; not so for timers, which ask nobody."""
        if is_answered():
            return
        if is_refused:
            await self.refuse_if_stopping()
        self.watch.pause(operation, "wait")
        self.waiting[key] = self.waiting.get(key, 0) + 1
        self.check_quiet()
        try:
            while not is_answered():
                self._check_sealed()
                await self._waiters.setdefault(key, anyio.Event()).wait()
        finally:
            self.waiting[key] -= 1
            if not self.waiting[key]:
                del self.waiting[key]
                self._waiters.pop(key, None)
            self.watch.resume(operation)

    def wake(self, key: str) -> None:
        """Something that is waited for under this key has come."""
        if (event := self._waiters.pop(key, None)) is not None:
            event.set()

    async def deliver(
        self, make: Callable[[], e.OperationFinished | e.OperationRecalled | e.PatchMarked | None]
    ) -> bool:
        """Give a result its place in the journal's order: at the agent's asking, not when it came.

        `make` is called when it can have one; False if it returned None, since what came is gone again.
        """
        await self.pass_barrier()
        self._check_sealed()
        try:
            return await self.host.journal.note(
                self.session, lambda: (made := make()) and self._stamped(made, self.state), self.settling.coming_step()
            )
        except StoreError as error:
            self.host.suspend_tree(self, error)
            raise Suspended from error

    async def take(self, operation: str) -> Operation:
        """Return an operation with its result, when its turn has come. A cancelled waiter marks it as taken, and gets
        nothing even if the result is there by now: a re-run would be cancelled before its turn."""
        try:
            while not (self.settling.may_go_on and self.replay.front(self.state) == operation):
                self._check_can_come()
                event = self._turns[operation] = anyio.Event()
                with self._blocking():
                    await event.wait()
            await checkpoint_if_cancelled()
        finally:
            self._turns.pop(operation, None)
            self._pass_over(operation)
        return self.state.operations[operation]

    @property
    def has_place(self) -> bool:
        """Whether what is delivered now is given to the agent at once: no result stands before it, and all that
        follows from the last one has happened."""
        return self.settling.may_go_on and self.replay.front(self.state) is None

    async def wait_for_place(self) -> None:
        """Wait until the agent was given all results that there are."""
        while not self.has_place:
            self._check_sealed()
            event = self._turns.setdefault(None, anyio.Event())
            with self._blocking():
                await event.wait()

    async def wait_for_scope(self) -> None:
        """Wait as an operation does that a scope of the agent's own ended before: until it is cancelled again."""
        with self._blocking():
            while not self.is_sealed:
                await self._held.wait()
        raise Suspended

    @contextmanager
    def _blocking(self) -> Iterator[None]:
        self.blocked += 1
        if self.replay.is_replaying:
            self.host.waits_for_replay(self)
        try:
            with self.watch.held():
                yield
        finally:
            self.blocked -= 1

    def _pass_over(self, operation: str) -> None:
        """Its turn is taken: the next result may be given when all that follows from this one has happened."""
        self.replay.give(operation)
        self.settling.begin()
        self._wake_front()

    def _wake_front(self) -> None:
        if self._turns and not self.settling.hot and (front := self.replay.front(self.state)) in self._turns:
            self._turns.pop(front).set()

    def has_settled(self) -> None:
        """All that follows from what the agent was given has happened."""
        if not self.has_ended and (self._turns or self.waiting):
            self._wake_front()
            self.check_quiet()

    def fell(self, error: Exception) -> None:
        """`has_settled` raised this: nobody knows whether the agent can go on."""
        self.host.suspend_tree(self, StoreError(f"its next result could not be given: {error!r}"))

    @property
    def _gives_more(self) -> bool:
        """Whether another result is given to the agent as soon as it waits."""
        is_held = self.has_ended or bool(self.settling.held)
        return not is_held and bool(self._turns) and self.replay.front(self.state) in self._turns

    def goes_on(self) -> bool:
        """Whether the agent has more to do before it waits for anything but results that there are: what it appends
        meanwhile may be committed together."""
        return not self.has_ended and not self.settling.held and (bool(self.settling.hot) or self._gives_more)

    # -- quiet -------------------------------------------------------------------------------------------------------

    @property
    def waits(self) -> int:
        """How many of its operations wait: for people, messages, children or timers, or for the replay."""
        return self.blocked + sum(self.waiting.values())

    @property
    def is_quiet(self) -> bool:
        """Whether all that the attempt does is wait for people, messages, children, or timers, and the agent was given
        every result that there is."""
        if self.stop_reason is not None or not self.waiting or self.watch.is_working or self.settling.hot:
            return False
        if self.replay.front(self.state) is not None:
            return False
        return self.in_flight == self.waits - self.is_finishing

    @property
    def rest(self) -> tuple[int, tuple[str, ...]]:
        """Which of its quiet spells this is, and what it waits for. Whoever decides something because the attempt is
        quiet asks again in the plan whether this is the same: the agent may have been given something in between."""
        return self.quiet_spells, tuple(sorted({*self.waiting, *self.timers}))

    def check_quiet(self) -> None:
        """Something about the attempt has changed; if it is quiet now, a quiet spell begins."""
        if self.is_quiet:
            self.quiet_spells += 1
            self.quiet_since = anyio.current_time()
            self.host.grew_quiet(self)
            if self.replay.is_replaying:
                self.host.waits_for_replay(self)
