"""One attempt: an invocation of an agent function that is in memory, and everything its operations have in common.

An attempt has two cancel scopes, external outside and watchdog inside, and one stop reason, which is None until the
attempt is stopped. `stop` sets the reason (the first one wins) and cancels, in one step. The outcome follows from the
reason, since the `cancelled_caught` of a scope cannot tell why it was cancelled (W1).

Every operation takes the same path. `enter` says whether the journal knows it, and holds it until it may begin. Its
result is in the journal already, or the operation does its work and appends it, or waits for it (`wait`). Then `take`
gives the result to the agent when its turn has come (core/sessions/replay_order.py) and everything that follows from
the result before it has happened (settling.py). All of this is one state, so the module is longer than 400 lines.

Rules
- If an operation is cancelled while the stop reason is None, then a scope of the agent's own cancelled it.
- A sealed attempt (passivated, suspended, abandoned) raises Suspended from every operation, and also from operations
  that wait inside a shielded scope of the agent. It withdraws nothing.
- Every operation yields when it begins. So neither an agent that swallows exceptions nor an agent whose operations are
  all answered at once can freeze the loop (W13).
"""

from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager, suppress
from datetime import datetime
from math import inf
from typing import Any, Final, TypeVar

import anyio
import msgspec
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from supervisor.core import events as e
from supervisor.core.blocking import Block
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput, RunStopping, StoreError, Suspended
from supervisor.core.limits import Ticket, key_of
from supervisor.core.sessions.machine import BEGINS_OPERATION
from supervisor.core.sessions.overlay import EMPTY, map_with
from supervisor.core.sessions.replay_order import ReplayOrder
from supervisor.core.sessions.state import Operation, SessionState
from supervisor.runtime.attempt.bodies import Running
from supervisor.runtime.attempt.divergence import block_here, lines_here, path_block, told_operation
from supervisor.runtime.attempt.host import Host, StopReason
from supervisor.runtime.attempt.operation_ids import Names
from supervisor.runtime.attempt.places import PLACE, Place
from supervisor.runtime.attempt.settling import DEEPEST, Settling, Waiters
from supervisor.runtime.clock.alarm import Appointment
from supervisor.runtime.clock.watchdog import Watch
from supervisor.runtime.environment import Body
from supervisor.runtime.journal.writer import Entry, Plan, View
from supervisor.seam.store import Store, StoreAway

E = TypeVar("E", bound=Any)
T = TypeVar("T")

# What most attempts never have is shared: each empty set or map would cost every waiting run its memory.
_NO_NAMES: Final[frozenset[str]] = frozenset()
READY: Final = "ready:"
"""Begins the keys of approved calls that wait until their tool is ready. No entry of the journal answers them."""


class Attempt:
    __slots__ = (
        "_resting",
        "_rests",
        "_turns",
        "_waiters",
        "asked_late",
        "block",
        "blocked",
        "bounded",
        "deadline",
        "entering",
        "external",
        "firing",
        "has_ended",
        "host",
        "in_flight",
        "inner",
        "instead",
        "is_bounded",
        "is_finishing",
        "is_looked_at",
        "is_sealed",
        "moved_at",
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
        "turn",
        "unwritten",
        "waiting",
        "watch",
        "written_at",
    )

    def __init__(self, host: "Host[Attempt]", session: str, spec: AgentSpec[Any, Any]) -> None:
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
        self.instead: MutableMapping[str, tuple[str, str, str]] = EMPTY
        """Operations that the agent asked for during the replay and that the journal does not hold. Each in words, with
        two lines of code (runtime/attempt/divergence.py)."""
        self.moved_at = host.alarm.now()
        """During a replay: when the agent last asked for an operation or was given a result, on the alarm's clock."""
        self.task = 0
        """The id of the agent function's task."""
        self.strangers: frozenset[int] | None = None
        """The ids of tasks that had no parent task when the replay began; None if they were not listed."""
        self.is_looked_at = False
        """Whether an appointment checks that the replay gets any further."""
        self.block: Block | None = None
        """Why the attempt is blocked, once that is its stop reason."""
        self.patches: Mapping[str, bool] = EMPTY
        """The answers that `Context.patched` has given, by name."""
        self.to_save: msgspec.Raw | None = None
        """The state that the latest save is about to write."""
        self.watch = Watch(host.watchdog, spec, self.stall)
        self.timers: dict[str, datetime] = {}
        """The due instants of the attempt's durable timers. A run with a timer does not only wait for people."""
        self.waiting: dict[str, int] = {}
        """The keys that operations wait for, with the number of operations for each (RunPassivated.waiting_for)."""
        self.entering = 0
        """The operations under way that are model calls that wait to be entered (runtime/attempt/places.py)."""
        self.in_flight = self.blocked = self.bounded = 0
        """`in_flight`: all operations under way. `blocked`: the waits for the replay, of operations and of timers.
        `bounded`: those of them that a deadline of the agent's own ends."""
        self.deadline = inf
        """When the scopes around the attempt end it, on the loop's clock."""
        self.firing = 0
        """The timers that are about to cancel their blocks."""
        self.stopped_at = 0
        """The length of the journal when the attempt was told to stop."""
        self.asked_late = _NO_NAMES
        """New operations that the agent asked for after the attempt was told to stop."""
        self.quiet_since = 0.0
        self.quiet_spells = 0
        self.overdue: Appointment | None = None
        """The appointment that abandons the attempt if it has not ended by then, once it was told to end."""
        self.unwritten = 0
        """The bytes of the reports that are not written yet, at most."""
        self.written_at: Appointment | None = None
        """The appointment that writes them."""
        self.turn: Ticket | None = None
        """The place of its agent's limit that it holds or waits for."""
        self.is_bounded: bool | None = None
        """Whether any budget bounds the run; None: not known yet."""
        self.is_finishing = False
        """Whether the agent function has returned and waits for its children."""
        self._waiters: dict[str | None, Waiters] = {}
        """The tasks that wait, by the key of what they wait for. None: for the replay, or for the end of a stop."""
        self._turns: dict[object, Waiters] = {}
        """The events of operations and resting tasks that wait for their turn. None is the key of a new result that has
        no place yet."""
        self._resting: tuple[object, ...] = ()
        """The tasks that go on before the next result is given, in order."""
        self._rests = 0
        """How often a task has rested since the last result."""
        self.settling = Settling(self)

    def __repr__(self) -> str:
        return f"<attempt of {self.spec.name} on {self.session}, stop reason {self.stop_reason}>"

    @property
    def state(self) -> SessionState:
        return self.host.journal.states[self.session]

    # -- ending ------------------------------------------------------------------------------------------------------

    @property
    def is_ending(self) -> bool:
        """Whether the run was told to end: what the agent does from now on is its clean-up."""
        return self.stop_reason is not None and not self.stop_reason.is_pause

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
        """Let no operation go on. Those that still wait after the cancellation are inside a shielded scope."""
        self.is_sealed = True
        for key in list(self._waiters):
            self.wake(key)
        self._ring_waiters()

    def _ring_waiters(self) -> None:
        """Let the operations check again that wait for their turn, or for the replay."""
        for key in list(self._turns):
            self._turns.pop(key).wake()
        self.wake(None)

    def stall(self, cause: str) -> None:
        """Stop because the watchdog has expired."""
        if self.host.is_draining:
            return  # the stop holds its operations, and suspends it when the executing calls have ended
        steps = {f"step {work.name}" for work in self.watch.work if work.name}
        doing = ", ".join(sorted({*self.waiting, *steps})) or "nothing that the journal records"
        if self.replay.oldest_unclaimed(self.state) is not None:
            self.stop_blocked(path_block(self, f"the agent stalled: {cause}"))
        else:
            self.stop(StopReason("stalled", f"{cause}, doing: {doing}" if self.in_flight else cause))

    def stop_blocked(self, block: Block) -> None:
        """Stop because today's code cannot follow the journal (R1). There is no outcome, and nothing is withdrawn."""
        if self.stop_reason is None:
            self.block = block
            self.stop(StopReason("blocked", block.cause))

    def make_body(self, running: Running, fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any], **more: Any) -> Body:
        """Return a body of this attempt. `more`: its kind, its name, and what else a Body has."""
        return Body(
            session=self.session,
            run=self.run,
            operation=running.operation,
            inactivity_timeout=self.spec.inactivity_timeout,
            stall=self.stall,
            fn=fn,
            args=args,
            kwargs=kwargs,
            in_thread=running.in_thread,
            **more,
        )

    def read(self, operation: str | None, decode: Callable[[], T]) -> T:
        """Return a journaled value as the code's type. A value that does not fit was written by other code, and blocks
        the run (R1)."""
        try:
            return decode()
        except InvalidInput as misfit:
            self.stop_blocked(block_here(self, "value", operation, str(misfit)))
            raise Suspended from misfit

    def read_store(self, read: Callable[[Store], T]) -> T:
        """Read the store for the agent's code, which cannot wait here. If the store is away, this attempt ends in good
        order, and the next one begins when it answers."""
        try:
            return read(self.host.journal.store)
        except StoreAway as away:
            self.host.begin_again(self, away)
            raise Suspended from away

    # -- operations --------------------------------------------------------------------------------------------------

    def begin_operation(self) -> None:
        """Count an operation as in flight. Counting needs no object for each, since many operations wait."""
        self.in_flight += 1

    async def end_operation(self, operation: str | None = None) -> None:
        """Record that an operation has ended in any way, which is progress. `operation`: its id, if it has a result in
        the replay order: then the next result may be given."""
        try:
            if operation is not None:
                await self.leave(operation)
                self.complete(operation)
        finally:
            self.past_operation()
        if (place := PLACE.get()) is not None and place.regains:
            await self.regain(place)

    def past_operation(self) -> None:
        """Count an operation as over, which is progress."""
        self.in_flight -= 1
        self.watch.progress()
        self.check_quiet()

    async def do_once(self, operation: str, do: Callable[[], Awaitable[object]]) -> Operation:
        """Do an operation that waits for no person and no time, unless the journal has it, and return its record. The
        operations that wait have this frame themselves: one more frame would be in memory for as long as they wait."""
        self.begin_operation()
        try:
            if await self.enter(operation) is None:
                await do()
            return await self.take(operation)
        finally:
            await self.end_operation(operation)

    def finished(self, operation: str, kind: str, **fields: Any) -> e.OperationFinished:
        """Return the event of a result that is known now."""
        return e.OperationFinished(at=self.host.clock.now(), operation=operation, kind=kind, **fields)

    def complete(self, operation: str) -> None:
        """Record that the agent is past an operation: it has the result, or a scope of its own has cancelled the
        operation. The next save drops it."""
        if self.stop_reason is None and (
            (record := self.state.operations.get(operation)) is None or not record.is_open
        ):
            self.names.open.pop(operation, None)

    def refuse_new(self, operation: str, why: str | None) -> None:
        """Raise InvalidInput for an operation that is not in the journal yet, for a reason; None: there is none. What a
        former version has journaled goes on."""
        if why is None or self.host.environment.is_former:
            return
        if operation not in self.state.operations and operation not in self.state.kept:
            self.names.drop(operation)
            raise InvalidInput(why)

    async def enter(self, operation: str) -> Operation | None:
        """Begin an operation: return its journaled record, or None for a new operation, which may begin now.

        From the first step on the agent has asked for it, even if a scope of its own cancels it before it has yielded.
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
            if self.replay.owes(self.state):
                await self._be_given_all()
            if operation not in self.state.kept:
                return None
            recalled = e.OperationRecalled(at=self.host.clock.now(), operation=operation)
            await self.deliver(lambda: recalled)
            return self.state.operations[operation]
        return record

    def _claim(self, operation: str) -> None:
        """Record that the agent has asked again for a journaled operation."""
        if self.replay.is_replaying:
            self.moved_at = self.host.alarm.now()
        self.replay.claim(operation)
        if not self.replay.is_replaying:
            self.names.asked = None
            self.wake(None)
            self.host.follows(self)
        self._wake_front()

    async def check(self) -> None:
        """Yield. Hold the operation while a graceful stop is under way. Raise Suspended if the attempt is sealed."""
        await checkpoint()
        await self.hold()
        self._check_sealed()

    async def hold(self) -> None:
        """Wait while a graceful stop lets executing calls end: nothing new begins during that time (R8)."""
        while self.host.is_draining and self.stop_reason is None:
            await self._wait_for_wake()

    def _check_sealed(self) -> None:
        if self.is_sealed:
            raise Suspended

    def _check_can_come(self) -> None:
        """Raise if the turn of an operation cannot come. An agent that was told to stop during its replay never asks
        for the rest of its journal. A shielded operation in its clean-up would wait for that without end."""
        self._check_sealed()
        if self.stop_reason is not None and self.replay.is_replaying:
            raise RunStopping(f"the run was told to stop during its replay ({self.stop_reason})")

    async def refuse_if_stopping(self) -> None:
        """Raise RunStopping if the run was told to stop: it spawns no sub-agent and asks no person (W8)."""
        if self.stop_reason is not None:
            await self.check()
            raise RunStopping(f"the run was told to stop ({self.stop_reason})")

    async def _pass_barrier_with(self, operation: str) -> None:
        """Pass the barrier with a new operation. If the run is blocked there, the block names this operation as what
        the agent asked for instead."""
        self.moved_at = self.host.alarm.now()
        asked = (self.names.asked or {}).get(operation, (operation, "", None))
        told = told_operation(*asked), *lines_here(self.spec.fn.__code__)
        self.instead = map_with(self.instead, operation, told)
        try:
            await self.pass_barrier()
        finally:
            del self.instead[operation]

    async def _be_given_all(self) -> None:
        """Wait until the agent was given all results that its journal held at first. One of them may lead to a scope
        that cancels the new operation, as it did before: it waited then, for a budget, and left no trace. A workflow
        does not wait, unless a budget bounds it: each replay of its history must do as it did."""
        if self.host.environment.runs_elsewhere and not await self.host.budgets.bounds(self):
            return
        while self.stop_reason is None and self.replay.owes(self.state):
            await self._wait_for_given()
        self._check_sealed()

    async def pass_barrier(self) -> None:
        """Wait until the agent has asked for everything that its journal holds. Nothing new begins before that."""
        while self.replay.is_replaying:
            self._check_can_come()
            with self._blocking():
                await self._wait_for_wake()

    def append(
        self, plan: Callable[[View, SessionState], Iterable[e.AnyEvent]], *, bound: bool = True
    ) -> Coroutine[Any, Any, None]:
        """Append the events of `plan` to this session. `bound`: a sealed attempt refuses the append, as it does an
        operation."""
        session = self.session
        return self.append_to_many(
            lambda view: [(session, event) for event in plan(view, view.session(session))], bound=bound
        )

    async def append_if_live(self, plan: Callable[[View, SessionState], Iterable[e.AnyEvent]]) -> None:
        """Append to this session, unless the attempt was stopped or has ended. Does not raise: if the store refuses the
        entries, that stops the attempt."""
        if self.stop_reason is None and not self.has_ended:
            with suppress(Suspended):
                await self.append(plan)

    async def append_to_many(self, plan: Plan, *, bound: bool = True) -> None:
        """Append a plan that spans sessions. If the store refuses it, the tree is suspended, and no run of it fails."""

        def unless_sealed(view: View) -> Iterable[Entry]:
            if bound:
                self._check_sealed()
            state = view.session(self.session)
            return [(to, self._stamped(event, state) if to == self.session else event) for to, event in plan(view)]

        try:
            more = self.goes_on if self._gives_more else None
            await self.host.journal.append(unless_sealed, more, self.settling.coming_step())
        except StoreError as error:
            self.host.suspend_tree(self, error)
            raise Suspended from error

    def _stamped(self, event: E, state: SessionState) -> E:
        """Add to an event that begins an operation how many results the agent had been given when it asked for it."""
        asked = self.names.open.get(event.operation) if type(event) in BEGINS_OPERATION else None
        return event if asked is None else msgspec.structs.replace(event, given=self.replay.given_when(asked, state))

    async def abandon(
        self, operation: str, kind: str, follow: Callable[[View], Iterable[Entry]] = lambda view: (), **fields: Any
    ) -> None:
        """Journal that a scope of the agent's own has cancelled a journaled operation. `follow`: entries to add.
        `fields`: further ones of OperationAbandoned."""
        fields |= {"at": self.host.clock.now(), "operation": operation, "kind": kind}

        def plan(view: View) -> Iterable[Entry]:
            record = view.session(self.session).operations.get(operation)
            if record is None or not record.is_open or self.stop_reason is not None:
                return []
            ended = e.OperationAbandoned(**fields, approval=record.pending_approval)
            return [(self.session, ended), *follow(view)]

        record = self.state.operations.get(operation)
        if record is not None and record.is_open and self.stop_reason is None:
            with anyio.CancelScope(shield=True):  # changed code may have cancelled it: then the run is blocked here
                await self.pass_barrier()
            await self.append_to_many(plan, bound=False)

    async def wait(self, operation: str, key: str, is_answered: Callable[[], bool], *, is_refused: bool = True) -> None:
        """Wait for people, messages, children or timers, with the watchdog paused. `is_refused`: a run that was told to
        stop refuses the wait. It does not refuse waits for timers."""
        if is_answered():
            return
        if is_refused:
            await self.refuse_if_stopping()
        self.give_way()
        self.watch.pause(operation, "wait")
        self.waiting[key] = self.waiting.get(key, 0) + 1
        self.check_quiet()
        try:
            while not is_answered():
                self._check_sealed()
                with self._waiters.setdefault(key, Waiters(self.settling)) as woken:
                    await woken.wait()
        finally:
            self._waits_no_more(key)
            self.watch.resume(operation)

    def _waits_no_more(self, key: str) -> None:
        self.waiting[key] -= 1
        if not self.waiting[key]:
            del self.waiting[key]
            self._waiters.pop(key, None)

    def wake(self, key: str | None) -> None:
        """Wake the operations that wait for this key: its answer has come."""
        if (waiters := self._waiters.pop(key, None)) is not None:
            waiters.wake()

    async def _wait_for_wake(self) -> None:
        """Wait until the replay has ended, the run is stopped, or a stop of the supervisor is over."""
        with self._waiters.setdefault(None, Waiters(self.settling)) as woken:
            await woken.wait()

    async def deliver(
        self, make: Callable[[], e.OperationFinished | e.OperationRecalled | e.PatchMarked | None]
    ) -> bool:
        """Give a result its place in the replay order: when the agent asks for it, not when it arrives.

        `make` is called when the result can have a place. Return False if `make` returned None, because the result no
        longer exists.
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
        """Return an operation with its result, when its turn has come. A cancelled caller does not get the result, even
        if its turn has come by now."""
        await self._wait_for_turn(operation)
        await checkpoint_if_cancelled()
        self._pass_over(operation)
        return self.state.operations[operation]

    async def leave(self, operation: str) -> None:
        """Leave an operation. A caller that was cancelled has not taken the result, and waits for its turn all the
        same. So it goes on at the same place in every attempt, however long its clean-up or the disk took in this one.
        """
        if self.replay.was_given(operation):
            return
        record = None if self.is_sealed else self.state.operations.get(operation)
        if record is not None and not record.is_open:
            with anyio.CancelScope(shield=True), suppress(Suspended, RunStopping):
                await self._wait_for_turn(operation)
        self._pass_over(operation)

    @asynccontextmanager
    async def resting(self) -> AsyncIterator[None]:
        """Let a task go on, after the block, when everything else has settled, and before the next result is given. The
        tasks in such blocks go on one after the other, in the order in which they came. For a block that may wait for
        the disk in one attempt and not in another: other tasks cannot tell the difference. The block itself may only
        wait while it holds (Settling.holding): else nothing would tell the next task that this one has gone on.
        """
        place = object()
        self._resting = (*self._resting, place)
        self._rests += 1
        try:
            yield
            if self._rests <= DEEPEST:  # else the agent spins
                with anyio.CancelScope(shield=True), suppress(Suspended, RunStopping):
                    await self._wait_for_turn(place)
        finally:
            self._resting = tuple(each for each in self._resting if each is not place)

    async def _wait_for_turn(self, place: object) -> None:
        """Wait until an operation's result may be given, or a resting task may go on. Return at once if the result was
        given."""
        while not (self.replay.was_given(place) or self._may_go_on(place)):
            self._check_can_come()
            turn = self._turns.get(place)
            if turn is None:
                turn = self._turns[place] = Waiters(self.settling)
            with self._blocking(), turn as woken:
                await woken.wait()
            self._check_sealed()  # its session may have left memory

    def _may_go_on(self, place: object) -> bool:
        """Whether a result may be given now: it is the next one, and the agent has a place of its limit."""
        return self.settling.may_go_on and self._front == place and (bool(self._resting) or self.has_turn())

    @property
    def _front(self) -> object | None:
        """What may go on next, once all has settled: a resting task, or the operation whose result may be given."""
        return self._resting[0] if self._resting else self.replay.front(self.state)

    @property
    def has_place(self) -> bool:
        """Whether the agent would be given a new result at once: no other result comes before it, and everything that
        follows from the last one has happened."""
        return self.settling.may_go_on and self._front is None

    async def wait_for_place(self) -> None:
        """Wait until the agent has been given all results that exist."""
        while not self.has_place:
            self._check_sealed()
            await self._wait_for_given()

    async def _wait_for_given(self) -> None:
        """Wait until the next result is given, or the run is stopped."""
        with self._blocking(), self._turns.setdefault(None, Waiters(self.settling)) as woken:
            await woken.wait()

    async def wait_for_scope(self) -> None:
        """Wait in place of an operation that a scope of the agent cancelled in an earlier attempt: until that scope
        cancels it again."""
        with self._blocking():
            while not self.is_sealed:
                await self._wait_for_wake()
        raise Suspended

    @contextmanager
    def _blocking(self) -> Iterator[None]:
        self.blocked += 1
        self.give_way()
        is_bounded = False
        if self.replay.is_replaying:
            self.host.waits_for_replay(self)
            is_bounded = anyio.current_effective_deadline() < self.deadline
        self.bounded += is_bounded
        try:
            with self.watch.held():
                yield
        finally:
            self.blocked -= 1
            self.bounded -= is_bounded

    def _pass_over(self, operation: str) -> None:
        """Record that the turn of an operation is over. The next result may be given when everything that follows from
        this one has happened."""
        if self.replay.is_replaying:
            self.moved_at = self.host.alarm.now()
        self.replay.give(operation)
        self._rests = 0
        self.settling.begin()
        if (others := self._turns.pop(operation, None)) is not None:  # a timer fires while its block ends
            others.wake()
        self._wake_front()

    def _wake_front(self) -> None:
        if not self._turns or (self.awaits_turn and not self._resting):
            return  # it is woken when it has a place
        if not self.settling.hot and (front := self._front) in self._turns:
            self._turns.pop(front).wake()

    def has_settled(self) -> None:
        """Give the next result: everything that follows from the last one has happened."""
        if not self.has_ended and (self._turns or self.waiting):
            self._wake_front()
            self.check_quiet()

    def settling_failed(self, error: Exception) -> None:
        """Suspend the tree, because `has_settled` has raised: the agent may wait without end."""
        self.host.suspend_tree(self, StoreError(f"the agent's next result could not be given: {error!r}"))

    @property
    def _gives_more(self) -> bool:
        """Whether another result is given to the agent as soon as it waits."""
        if not self._turns or self.has_ended or self.settling.held or self.awaits_turn:
            return False
        return self._front in self._turns

    def goes_on(self) -> bool:
        """Whether the agent has more to do before it waits for a result that does not exist yet. Its appends until then
        may be committed together."""
        return not self.has_ended and not self.settling.held and (bool(self.settling.hot) or self._gives_more)

    # -- limits ------------------------------------------------------------------------------------------------------

    @property
    def awaits_turn(self) -> bool:
        """Whether only a place of its agent's limit is between the agent and its next result."""
        return self.turn is not None and not self.turn.is_held

    def has_turn(self) -> bool:
        """Whether the agent holds a place of its limit, or needs none; else ask for one. A run that was told to stop
        needs none: its clean-up is bounded."""
        return self.spec.limit is None or self.stop_reason is not None or self.host.limits.ask_turn(self)

    async def wait_for_turn(self) -> None:
        """Wait, before the agent's function begins, for a place of its limit."""
        if not self.has_turn():
            while self.awaits_turn and self.stop_reason is None:
                with self._waiters.setdefault(key_of(self.spec.limit or ""), Waiters(self.settling)) as woken:
                    await woken.wait()
            self._check_sealed()

    async def regain_turn(self, operation: str) -> None:
        """Wait in an operation for a place of the agent's limit, if it has been given back."""
        if not self.has_turn():
            await self.wait(f"turn of {operation}", key_of(self.spec.limit or ""), self.has_turn)

    def begin_turn_wait(self, key: str) -> None:
        """Count a wait for a place of the agent's limit: the attempt may be quiet meanwhile."""
        self.in_flight += 1
        self.waiting[key] = self.waiting.get(key, 0) + 1
        self.watch.pause(key, "wait")
        self.check_quiet()

    def end_turn_wait(self, key: str) -> None:
        """Go on: the agent has its place, or needs none any more."""
        self.wake(key)
        self._waits_no_more(key)
        self.watch.resume(key)
        self._wake_front()
        self.past_operation()

    @property
    def is_alone(self) -> bool:
        """Whether no operation is under way whose result could come during a wait for a place."""
        return self.in_flight == self.entering and not self.timers

    def give_way(self) -> None:
        """Give back the places of the model calls in which this task runs: it is about to wait."""
        place = PLACE.get()
        while place is not None:
            if place.owner is self and place.ticket is not None:
                ticket, place.ticket = place.ticket, None
                self.host.limits.release(ticket)
            place = place.around

    async def regain(self, place: Place) -> None:
        """Take a place again that a model call without steps has given back: where it would wait at its entry."""
        if not (place.at_entry or self.is_alone) or self.replay.is_replaying:
            return
        while place.regains and place.ticket is None and self.stop_reason is None:
            if place.asking is not None:  # another task of the call asks
                await place.asking.wait()
                continue
            place.asking = asking = anyio.Event()
            self.entering += 1
            try:
                place.ticket = await self.host.limits.take(self, place.name, in_operation=False, counts=False)
            finally:
                self.entering -= 1
                place.asking = None
                asking.set()

    # -- quiet -------------------------------------------------------------------------------------------------------

    @property
    def waits(self) -> int:
        """The number of operations that wait: for people, messages, children or timers, or for the replay. So may a
        timer that fires."""
        return self.blocked + sum(self.waiting.values())

    @property
    def only_waits(self) -> bool:
        """Whether all operations wait, and no step is under way that lets one go on: of a task that was woken, or of a
        timer that fires."""
        return not self.settling.hot and self.in_flight + self.firing == self.waits - self.is_finishing

    @property
    def is_quiet(self) -> bool:
        """Whether the attempt only waits, for people, messages, children or timers, and the agent has been given every
        result that exists."""
        if self.stop_reason is not None or not self.waiting or self.watch.is_working or not self.only_waits:
            return False
        return self.replay.front(self.state) is None or self.awaits_turn

    @property
    def rest(self) -> tuple[int, tuple[str, ...]]:
        """The number of this quiet spell, and the keys that the attempt waits for. A caller that acts because the
        attempt is quiet compares it again in its plan: the agent may have been given a result in between."""
        return self.quiet_spells, tuple(sorted({*self.waiting, *self.timers}))

    def check_quiet(self) -> None:
        """Begin a quiet spell if the attempt is quiet now. Called after each change."""
        if self.is_quiet:
            self.quiet_spells += 1
            self.quiet_since = anyio.current_time()
            self.host.grew_quiet(self)
            if self.replay.is_replaying:
                self.host.waits_for_replay(self)
