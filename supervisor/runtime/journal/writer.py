"""The writer, the only writer of entries: validate (plan) -> append (store) -> apply (live state) -> act (caller).

`append(plan)` hands a pure, synchronous function to the writer. The writer runs the plans of a batch one after the
other, on drafts of the sessions that they touch, so that each plan sees the changes of the plans before it. It writes
and commits the batch. Then it makes the drafts the live state, wakes the callers, and publishes the entries.

Rules
- Only state that is on disk is visible. A cleanly refused commit changes nothing. After a failed sync the store is dead
  for this process, and all callers are told.
- A plan that raises fails only its caller. A plan may span sessions, and may run twice: if a store says that another
  process was faster (Overtaken), the batch goes back to the callers that gather, and its plans run again.
- The caller waits under a shield without a bound: a commit is never given up half-way.
- A caller that finds no commit under way commits at once, in its own task, without an await. All other callers wait for
  the writer's task, which commits their plans together (group commit). So does a caller in a tick of the loop that has
  seen FEW commits, since more are probable. So does an agent that is about to be given more results: the writer waits
  for the plans that follow from them, for at most MORE seconds.
- Only COMMIT is ever moved to a thread, and only while commits are slow: a busy loop starves a thread, and a slow disk
  in the loop blocks all tasks. A store on a server is sent the commit, and the loop waits for the answer (Store.send).
- A note (a deferred entry) needs no sync of its own. It counts at once in this process, and is written before the next
  append to its session. Entries that depend on it can only be committed after it (docs/project/architecture.md).
- Before a plan runs, the writer applies the entries that other processes have committed, in the store's order.

The module is longer than 400 lines because gathering, committing and applying share one state.
"""

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from math import inf
from typing import Protocol, TypeVar

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled, current_token

from supervisor.core.errors import IllegalEvent, StoreDied, StoreError, StoreRefused, Suspended
from supervisor.core.events import AnyEvent
from supervisor.core.rows import JournalEntry
from supervisor.core.sessions.state import SessionState, replay_journal
from supervisor.runtime.clock.bell import Bell
from supervisor.runtime.journal.commit_thread import in_thread, until_readable
from supervisor.runtime.journal.view import Answering as Answering, Entry as Entry, Plan as Plan, View as View
from supervisor.seam.store import Overtaken, Store, StoreAway
from supervisor.system.forks import THIS_PROCESS, end_copy, inherited
from supervisor.system.logs import FactLog

log = FactLog(__name__)

T = TypeVar("T")

SLOW_COMMIT_SECONDS = 0.004  # seconds: if a commit takes longer, the next ones run in a thread
MORE_SECONDS = 0.005  # seconds for which a batch waits for more plans
FEW = 2  # commits in one tick of the loop: a decision, and the call that it allows
RETRY_LOCK_SECONDS = 0.002  # seconds between two tries for the store's write lock


class Step(Protocol):
    """The step of the loop in which a caller continues after it has waited for a commit."""

    def come(self) -> None:
        """The commit has landed and the caller is about to continue."""

    def arrive(self) -> None:
        """The caller has continued, or has stopped waiting."""


class _Slot:
    """One caller's plan, and its error if it failed."""

    __slots__ = ("error", "plan", "step")

    def __init__(self, plan: Plan, step: Step | None = None) -> None:
        self.plan = plan
        self.step = step
        self.error: BaseException | None = None


class _Batch:
    """Callers whose plans are committed together. One event wakes them all, since each event costs time."""

    __slots__ = ("_landed", "slots")

    def __init__(self, *slots: _Slot) -> None:
        self.slots = list(slots)
        self._landed: list[anyio.Event] = []

    def gather(self, slot: _Slot) -> anyio.Event:
        """Add a caller, and return the event for which it waits."""
        self.slots.append(slot)
        return self.landing()

    def landing(self) -> anyio.Event:
        """Return the event for which a caller of this batch waits."""
        if not self._landed:
            self._landed.append(anyio.Event())
        return self._landed[-1]

    def join(self, later: "_Batch") -> None:
        """Run the plans again, and with them those of a batch that gathered later."""
        for slot in self.slots:
            slot.error = None
        self.slots += later.slots
        self._landed += later._landed  # noqa: SLF001 # of its own class

    def finish(self, error: BaseException | None = None) -> None:
        if error is not None:
            for slot in self.slots:
                slot.error = slot.error or error
        if self._landed:
            for slot in self.slots:
                if slot.step is not None:
                    slot.step.come()
        for landed in self._landed:
            landed.set()


class _Transaction:
    """Lets a task write and commit. Then the result is live and published, or is dropped if the store refuses. Each
    commit enters one, and a generator takes longer."""

    __slots__ = ("_batch", "_journal", "_view")

    def __init__(self, journal: "Journal", batch: _Batch) -> None:
        self._journal = journal
        self._batch = batch

    def __enter__(self) -> View:
        self._view = self._journal.begin_commit()
        return self._view

    def __exit__(self, _: object, error: BaseException | None, __: object) -> bool:
        return self._journal.end_commit(self._view, self._batch, error)


class Journal:
    """The writer, and the live states of the `pinned` sessions. It calls `publish` with committed entries, in order;
    `refuse` with a pinned session whose journal has become unreadable, and why; and `die` once if the store dies.
    `duration` measures how long work takes."""

    def __init__(
        self,
        store: Store,
        publish: Callable[[list[JournalEntry]], None],
        refuse: Callable[[str, str], None],
        die: Callable[[], None],
        duration: Callable[[], float],
    ) -> None:
        self.store = store
        self.states: dict[str, SessionState] = {}
        self.pinned: set[str] = set()
        self.notes: dict[str, list[AnyEvent]] = {}
        self.position = store.last_position()
        self.death: StoreError | None = None
        self.has_left = False
        self._is_behind = False
        """Whether entries of other processes are known to be there that were not taken yet."""
        self._generation: int | None = None
        """The store's generation when entries of other processes were last applied."""
        self._publish = publish
        self._refuse = refuse
        self._die = die
        self._duration = duration
        self._gathering = _Batch()
        self._more: dict[Callable[[], bool], None] = {}
        """One function for each caller in the batch: whether its attempt is going to append more before it waits."""
        self._work = anyio.Event()
        self._is_committing = False
        self._in_flight: dict[str, SessionState] = {}
        self._landed = Bell()
        self._coming: dict[Step, None] = {}
        """The steps of agents that wait for the commit under way."""
        self._in_this_tick = 0
        """The number of commits in about this tick of the loop. Each commit wakes the writer's task, which resets it.
        After FEW commits callers gather, since more are probable."""
        self._commit_time = 0.0
        self._process, self._loop = THIS_PROCESS.pid, current_token()

    async def append(
        self,
        plan: Plan,
        more: Callable[[], bool] | None = None,
        step: Step | None = None,
    ) -> None:
        """Run a plan, commit its entries, and return when they are on disk and live. `more`: returns true as long as
        other tasks of the caller are going to append, too. `step`: the step in which the caller continues, if it
        waits.

        Raises the plan's own exceptions; StoreRefused if the commit was rolled back; StoreDied if the store can no
        longer be trusted.
        """
        self._check_alive()
        slot = _Slot(plan, step)
        if more is None and self._may_commit_now() and self._begin():
            self._in_this_tick += 1
            self._work.set()  # before callers are woken: the writer resets the count before they continue
            batch = _Batch(slot)
            with _Transaction(self, batch) as view:
                self._write(view, batch)
                self._sync(view)
            landed = batch.landing() if batch is self._gathering else None  # else it was overtaken
        else:
            landed = self._gathering.gather(slot)
            if more is not None:
                self._more[more] = None
            self._work.set()
        if landed is not None:
            try:
                await _wait_whatever_comes(landed)
            finally:
                if step is not None:
                    step.arrive()
        if slot.error is not None:
            raise slot.error

    async def append_with_answer(self, plan: Answering[T]) -> T:
        """Append the entries of a plan, and return its answer. If the plan ran twice, the answer is from the committed
        run."""
        answers: list[T] = []

        def run(view: View) -> Iterable[Entry]:
            entries, answer = plan(view)
            answers[:] = [answer]
            return entries

        await self.append(run)
        return answers[0]

    async def note(
        self,
        session: str,
        make: Callable[[], AnyEvent | None],
        step: Step | None = None,
        join: Callable[[AnyEvent], AnyEvent | None] | None = None,
        hold: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> bool:
        """Apply an entry to the live state now; it is written before the session's next append.

        `make` is called in the same step of the loop in which its entry is applied. If it returns None, nothing is
        noted, and the result is False. A caller that is cancelled before that step has noted nothing. `join`: is asked
        first, with the last note that is not written yet; an entry that it returns takes the place of that note, and
        must mean the same for the state but for its longer text. `hold`: a context in which the caller waits for a
        commit under way.
        """
        self._check_alive()
        while session in self._in_flight:
            with hold():
                await self._wait_for_landing(step)
        await checkpoint_if_cancelled()
        notes = self.notes.get(session)
        if join is not None and notes and (longer := join(notes[-1])) is not None:
            self.states[session].lengthen(notes[-1], longer)
            notes[-1] = longer
            return True
        event = make()
        if event is not None:
            self.states[session].apply(event)
            self.notes.setdefault(session, []).append(event)
        return event is not None

    async def _wait_for_landing(self, step: Step | None) -> None:
        if step is None:
            await self._landed.wait()
            return
        self._coming[step] = None
        try:
            await self._landed.wait()
        finally:
            self._coming.pop(step, None)
            step.arrive()

    def _ring_landed(self) -> None:
        """Wake the tasks that wait for the commit under way."""
        for step in self._coming:
            step.come()
        self._coming.clear()
        self._landed.ring()

    def look(self) -> View:
        """Return a view of the live state, as a plan sees it. Read it at once: it is of this instant."""
        return View(self.store, self.states, self.notes, self.position)

    def keep(self, session: str) -> None:
        """Load a session and keep its state in memory, until `unpin`. Raises StoreUnreadable."""
        self.pinned.add(session)
        rows = self.store.journal(session)
        self.states[session] = replay_journal(session, [row.event for row in rows if row.position <= self.position])

    def count_notes(self, session: str) -> int:
        """Return how many notes of a session are not written yet."""
        return len(self.notes.get(session, ()))

    def unpin(self, session: str) -> None:
        """Drop a session's state from memory. Its notes must have been written, or they are lost on purpose."""
        self.pinned.discard(session)
        self.states.pop(session, None)
        self.notes.pop(session, None)

    def catch_up(self) -> None:
        """Apply entries that other processes have committed, unless a batch is under way, which does so itself."""
        if THIS_PROCESS.pid != self._process:
            self._leave_copy()
        if self._is_committing or self.death is not None:
            return
        try:
            if self.store.has_changed() or self._is_behind:
                self._is_behind = True
                self._take_foreign()
                self._is_behind = False
        except StoreAway:
            return  # the next look takes them
        except StoreError as death:
            self._perish(death)

    async def run(self, *, ignore_native: bool = True) -> None:
        """Commit the batches that gather, until a scope is cancelled. Ignore native cancellation: at the end of a
        program it reaches this task while callers still append. `ignore_native`: false where it means `leave`."""
        while True:
            try:
                await self._serve()
            except anyio.get_cancelled_exc_class():
                if not ignore_native or anyio.current_effective_deadline() == -inf:
                    raise
            except BaseException as error:
                self._perish(error)
                raise

    async def _serve(self) -> None:
        await self._work.wait()
        if self._gathering.slots:
            await checkpoint()
            await self._wait_for_more()
            with anyio.CancelScope(shield=True):
                await self._commit_gathered()
        else:
            self._work = anyio.Event()
        self._in_this_tick = 0

    async def _wait_for_more(self) -> None:
        """Wait while callers in the batch are going to append more: an agent is given its results one by one, and
        begins its next operation after each. For a server, wait while the batch grows."""
        until = self._duration() + MORE_SECONDS
        while self._more and self._duration() < until:
            goes_on = next(iter(self._more))
            if goes_on():
                await checkpoint()
            else:
                del self._more[goes_on]
        self._more.clear()
        known = FEW  # a round trip to a server costs as much as many entries: it is made when no more of them come
        while self.store.is_shared and known < len(self._gathering.slots) and self._duration() < until:
            known = len(self._gathering.slots)
            await checkpoint()
            await checkpoint()  # a task that a commit has woken appends in its next step, or in the one after it

    async def _commit_gathered(self) -> None:
        self._is_committing = True
        error: StoreError | None = None
        try:
            while not self._begin():  # noqa: ASYNC110 # another process holds the lock; it sends no event
                await anyio.sleep(RETRY_LOCK_SECONDS)
        except StoreError as fault:
            error = fault
        except anyio.get_cancelled_exc_class():
            self._is_committing = False
            raise
        batch, self._gathering = self._gathering, _Batch()
        self._work = anyio.Event()
        if error is not None:
            self._is_committing = False
            batch.finish(error)
            return
        with _Transaction(self, batch) as view:
            self._write(view, batch)
            is_empty = not view.rows and not view.has_claimed
            if is_empty or (self._commit_time < SLOW_COMMIT_SECONDS and not self.store.is_shared):
                self._sync(view)
            else:
                self._in_flight = view.drafts
                await self._sync_apart(view)

    def _begin(self) -> bool:
        try:
            return self.store.begin()
        except StoreRefused:
            raise
        except StoreError as death:
            self._perish(death)
            raise

    def _check_alive(self) -> None:
        if THIS_PROCESS.pid != self._process:
            self._leave_copy()
        if self.death is not None:
            raise StoreDied(str(self.death)) from self.death

    def _leave_copy(self) -> None:
        """End a forked process that goes on with this loop; raise StoreDied in one that has a loop of its own."""
        try:
            is_here = current_token() == self._loop
        except RuntimeError:  # asyncio has forgotten its loop, and runs it all the same
            is_here = True
        if is_here:
            end_copy(self._process)
        raise inherited(self.store.name)

    def _may_commit_now(self) -> bool:
        is_free = not self._is_committing and not self._gathering.slots and self._in_this_tick < FEW
        return is_free and not self.store.is_shared and self._commit_time < SLOW_COMMIT_SECONDS

    def begin_commit(self) -> View:
        """Begin a commit, and return what its plans see."""
        self._is_committing = True
        return self.look()

    def end_commit(self, view: View, batch: _Batch, broken: BaseException | None) -> bool:
        """Make what was committed live and publish it; drop it if the store refuses. Return whether `broken`, which the
        commit has raised, is told to those who wait for the batch."""
        error: StoreError | None = None
        if isinstance(broken, Overtaken) and (error := self._take_back(broken)) is broken:
            self._run_again(batch)
            return True
        if error is not None:
            view = self.look()
        elif isinstance(broken, StoreRefused):
            error, view = self._take_back(broken), self.look()
        elif isinstance(broken, StoreError):
            self._perish(broken)
            error, view = self.death, self.look()
        elif broken is not None:
            self._perish(broken)
            batch.finish(self.death)
            return False
        self._land(view)
        batch.finish(error)
        self._publish(view.rows)
        return broken is not None

    def _run_again(self, batch: _Batch) -> None:
        """Let the writer's task run the plans of a batch that was overtaken, before those that came later."""
        batch.join(self._gathering)
        self._gathering, self._is_committing, self._in_flight = batch, False, {}
        self._ring_landed()
        self._work.set()

    def _write(self, view: View, batch: _Batch) -> None:
        """Run the plans on the state that is on disk now, and write their entries."""
        if self.store.generation != self._generation:
            self._take_foreign(is_locked=True)
            self._generation = self.store.generation
            view.position = self.position
        for slot in batch.slots:
            self._run_plan(view, slot)
        self.store.write(view.rows)

    def _take_back(self, refusal: StoreRefused) -> StoreError | None:
        """Roll back a refused batch, and return the error for the waiting callers."""
        try:
            self.store.rollback()
        except StoreError as death:
            self._perish(death)
            return self.death
        if isinstance(refusal, Overtaken):
            return refusal
        log.error("commit.refused", store=self.store.name, reason=str(refusal))
        return refusal

    def _take_foreign(self, *, is_locked: bool = False) -> None:
        """Apply entries of other processes. The store leaves out an entry that it cannot read (a newer program wrote
        it): its session is refused here, and under the lock our next position is the one after it."""
        rows = self.store.rows(self.position)  # all that may fail comes first
        last = rows[-1].position if rows else self.position
        noted = {row.session for row in rows} & self.notes.keys() - self.store.unreadable.keys()
        rebased = {session: self._rebased(session, last) for session in noted}
        end = self.store.last_position() if is_locked and self.store.unreadable else last
        for row in rows:
            if row.session in self.states and row.session not in self.notes:
                self.states[row.session].apply(row.event)
        self.states.update(rebased)
        self.position = end
        for session in self.store.unreadable.keys() & self.pinned:
            self._refuse(session, self.store.unreadable[session])
        if rows:
            self._publish(rows)

    def _rebased(self, session: str, last: int) -> SessionState:
        """Apply a session's unwritten notes again, after entries that another process has written: on disk the notes
        come after these."""
        entries = [row.event for row in self.store.journal(session) if row.position <= last]
        return replay_journal(session, entries + self.notes[session])

    def _run_plan(self, view: View, slot: _Slot) -> None:
        length = len(view.rows)
        try:
            for session, event in list(slot.plan(view)):
                view.take(session, event)
        except Overtaken:
            raise
        except (Exception, Suspended) as error:  # noqa: BLE001 # a plan is its caller's code, and so is its exception
            if isinstance(error, IllegalEvent):
                log.error("event.refused", reason=str(error))
            slot.error = error
            if len(view.rows) > length:
                view.cut(length)

    def _sync(self, view: View) -> None:
        if not view.rows and not view.has_claimed:
            self.store.end_reading()
            return
        before = self._duration()
        self.store.commit()
        if self.store.is_durable:  # a store in memory needs no thread, and virtual time does not wait for threads
            self._commit_time = self._duration() - before

    async def _sync_apart(self, view: View) -> None:
        """As _sync, while other tasks run."""
        try:
            for descriptor in self.store.send():
                await until_readable(descriptor)
        except BlockingIOError:
            await in_thread(partial(self._sync, view))
        else:
            self._sync(view)

    def _land(self, view: View) -> None:
        """Make the drafts the live state."""
        self.position += len(view.rows)
        for session, draft in view.drafts.items():
            if session in self.pinned:
                draft.land()
                self.states[session] = draft
        for session in view.noted:
            self.notes.pop(session, None)
        self._is_committing = False
        self._in_flight = {}
        self._ring_landed()

    def _perish(self, error: BaseException) -> None:
        """The store has died for this process: fail all callers that wait, and trust no state in memory."""
        if self.death is not None:
            return
        death = error if isinstance(error, StoreError) else StoreDied(f"the writer died: {error!r}")
        log.error("store.died", store=self.store.name, reason=str(death))
        self._give_up(death)

    def leave(self, reason: str) -> None:
        """Give the store up, since another process goes on with it: fail all callers that wait now or come later."""
        self.has_left = True
        self._give_up(StoreDied(reason))

    def _give_up(self, death: StoreError) -> None:
        self.death = death
        waiting, self._gathering = self._gathering, _Batch()
        waiting.finish(self.death)
        self._in_flight = {}
        self._ring_landed()
        self._die()


async def _wait_whatever_comes(event: anyio.Event) -> None:
    """Wait for an event, whatever cancellation comes. A scope's cancellation is raised again at the next checkpoint. A
    native cancellation (asyncio's own timeouts) would be lost, so it is raised after the wait.

    The shield begins only when a cancellation comes: a shield around each wait takes as long as the wait itself.
    """
    try:
        await event.wait()
    except anyio.get_cancelled_exc_class():
        with anyio.CancelScope(shield=True):
            await _wait_shielded(event)
        if anyio.current_effective_deadline() > -inf:
            raise


async def _wait_shielded(event: anyio.Event) -> None:
    cancellation: BaseException | None = None
    while not event.is_set():
        try:
            await event.wait()
        except anyio.get_cancelled_exc_class() as error:
            cancellation = error
    if cancellation is not None:
        raise cancellation
