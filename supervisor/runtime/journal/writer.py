"""The one way in which anything is written: validate (plan) -> append (store) -> apply (live state) -> act (the
caller).

`append(plan)` hands a pure, synchronous function to the writer. A batch runs its plans each against everything before
it, on drafts of the sessions they touch; it is written and committed, then the drafts become the live state, the
callers are woken, and it is published.

Rules
- Nobody sees a state that is not on disk. A commit refused cleanly leaves everything as it was; after a failed sync the
  store is dead for this process, and everybody is told.
- A plan that raises fails only its caller. A plan may span sessions, and may run twice.
- The caller waits under a shield without a bound: a commit is never given up half-way.
- Whoever finds nobody committing commits at once, in its own task, without an await. Others gather behind the writer's
  task, and so does who comes in a tick that has seen a few commits: more are coming (group commit). So does an agent
  that is going to be given more results at once; the writer waits for what follows from them, for MORE at most.
- Only COMMIT ever leaves the loop, and only while commits are slow: a thread is starved by a busy loop, a slow disk in
  the loop stops everybody.
- A note is an entry that needs no sync of its own: it counts at once in this process and is written with the session's
  next append, before it. What depends on it can only be committed after it (docs/project/architecture.md).
- Another process's entries are on disk: they are taken in before any plan runs, in the store's order.

The module is longer than 400 lines because gathering, committing and applying are one state.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from math import inf
from typing import Protocol, TypeVar

import anyio
from anyio.lowlevel import checkpoint, checkpoint_if_cancelled

from supervisor.abc import JournalEntry, Store
from supervisor.core.errors import IllegalEvent, StoreDied, StoreError, StoreRefused, Suspended
from supervisor.core.events import AnyEvent
from supervisor.core.session import SessionState, replay
from supervisor.logs import FactLog
from supervisor.runtime.clock.bell import Bell
from supervisor.runtime.clock.clock import duration
from supervisor.runtime.journal.commit_thread import in_thread
from supervisor.runtime.journal.view import Answering as Answering, Entry as Entry, Plan as Plan, View as View

log = FactLog(__name__)

T = TypeVar("T")

SLOW_COMMIT = 0.004  # seconds from which on commits are sent to a thread
MORE = 0.005  # seconds for which what has gathered waits for more
FEW = 2  # commits in one tick of the loop: a decision, and the call that goes on by it
RETRY_LOCK = 0.002  # seconds between two tries for the store's write lock


class Step(Protocol):
    """The step in which a caller goes on after it has waited for a commit."""

    def come(self) -> None:
        """The commit has landed, and the caller is being woken."""

    def arrive(self) -> None:
        """The caller has gone on, or does not wait any more."""


class _Slot:
    """One caller's plan, and what became of it."""

    __slots__ = ("error", "plan", "step")

    def __init__(self, plan: Plan, step: Step | None = None) -> None:
        self.plan = plan
        self.step = step
        self.error: BaseException | None = None


class _Batch:
    """Callers who are committed together, and are told together: one event for all, since each costs."""

    __slots__ = ("landed", "slots")

    def __init__(self, *slots: _Slot) -> None:
        self.slots = list(slots)
        self.landed: anyio.Event | None = None

    def gather(self, slot: _Slot) -> anyio.Event:
        """Take one more; returns what it waits for."""
        self.slots.append(slot)
        if self.landed is None:
            self.landed = anyio.Event()
        return self.landed

    def finish(self, error: BaseException | None = None) -> None:
        if error is not None:
            for slot in self.slots:
                slot.error = slot.error or error
        if self.landed is not None:
            for slot in self.slots:
                if slot.step is not None:
                    slot.step.come()
            self.landed.set()


class Journal:
    """Live states of the sessions that are `pinned`, and the writer. `publish` gets what was committed, in order;
    `refuse` the pinned sessions whose journals cannot be read any more; `die` is called once if the store has died."""

    def __init__(
        self,
        store: Store,
        publish: Callable[[list[JournalEntry]], None],
        refuse: Callable[[str, str], None],
        die: Callable[[], None],
    ) -> None:
        self.store = store
        self.states: dict[str, SessionState] = {}
        self.pinned: set[str] = set()
        self.notes: dict[str, list[AnyEvent]] = {}
        self.position = store.last_position()
        self.death: StoreError | None = None
        self._generation: int | None = None
        """That of the store when entries of others were last taken in."""
        self._publish = publish
        self._refuse = refuse
        self._die = die
        self._gathering = _Batch()
        self._more: set[Callable[[], bool]] = set()
        """Each says whether one that has gathered something is going to append more without waiting for this."""
        self._work = anyio.Event()
        self._is_committing = False
        self._in_flight: dict[str, SessionState] = {}
        self._landed = Bell()
        self._coming: dict[Step, None] = {}
        """The steps in which agents go on that wait for it."""
        self._in_this_tick = 0
        """How many commits there were in about this tick of the loop: the writer's task, which each of them wakes,
        counts anew. Whoever comes behind FEW gathers, since more are coming."""
        self._commit_time = 0.0

    async def append(
        self,
        plan: Plan,
        more: Callable[[], bool] | None = None,
        cut: Callable[[], AbstractContextManager[None]] = nullcontext,
        step: Step | None = None,
    ) -> None:
        """Run a plan, commit what it returns, and return when that is on disk and live. `more`: says as long as it is
        true that the caller's other tasks are going to append, too. `cut`: entered while a caller that was cancelled
        waits for the commit. `step`: in which the caller goes on, if it waits.

        Raises what the plan raises; StoreRefused if the commit was rolled back; StoreDied if the store cannot be
        trusted any more.
        """
        self._check_alive()
        slot = _Slot(plan, step)
        if more is None and self._may_commit_now() and self._begin():
            self._in_this_tick += 1
            self._work.set()  # before anybody is told: then a new tick has begun for whoever goes on by it
            batch = _Batch(slot)
            with self._transaction(batch) as view:
                self._write(view, batch)
                self._sync(view)
        else:
            landed = self._gathering.gather(slot)
            if more is not None:
                self._more.add(more)
            self._work.set()
            try:
                await _wait_whatever_comes(landed, cut)
            finally:
                if step is not None:
                    step.arrive()
        if slot.error is not None:
            raise slot.error

    async def append_with_answer(self, plan: Answering[T]) -> T:
        """Append what a plan returns, and return its answer, of the run of the plan that was committed."""
        answers: list[T] = []

        def run(view: View) -> Iterable[Entry]:
            entries, answer = plan(view)
            answers[:] = [answer]
            return entries

        await self.append(run)
        return answers[0]

    async def note(self, session: str, make: Callable[[], AnyEvent | None], step: Step | None = None) -> bool:
        """Let an entry count in this process now; it is written before the session's next append.

        `make` is called in the step in which its entry counts; with None nothing is noted, and False returned. Until
        then it can be given up, and whoever is cancelled by then gets nothing.
        """
        self._check_alive()
        while session in self._in_flight:
            await self._wait_for_landing(step)
        await checkpoint_if_cancelled()
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
        """Wake those who wait for the commit under way."""
        for step in self._coming:
            step.come()
        self._coming.clear()
        self._landed.ring()

    def look(self) -> View:
        """Return a view of what is live now, to be read at once, as a plan would read it."""
        return View(self.store, self.states, self.notes, self.position)

    def keep(self, session: str) -> None:
        """Hold a session's state in memory for good. Raises StoreUnreadable."""
        self.pinned.add(session)
        rows = self.store.journal(session)
        self.states[session] = replay(session, [row.event for row in rows if row.position <= self.position])

    def has_notes(self, session: str) -> bool:
        return session in self.notes

    def unpin(self, session: str) -> None:
        """Let a session leave memory; its notes must have been written, or are of no use to anybody."""
        self.pinned.discard(session)
        self.states.pop(session, None)
        self.notes.pop(session, None)

    def catch_up(self) -> None:
        """Take in what other processes have committed, unless a batch is under way, which does so itself."""
        if self._is_committing or self.death is not None:
            return
        try:
            if self.store.has_changed():
                self._take_foreign()
        except StoreError as death:
            self._perish(death)

    async def run(self) -> None:
        """Commit what gathers, until a scope is cancelled; asyncio's own cancellation of all tasks comes too early."""
        while True:
            try:
                await self._serve()
            except anyio.get_cancelled_exc_class():
                if anyio.current_effective_deadline() == -inf:
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
        """Let those that have gathered something, and go on without waiting for it, gather the rest: an agent is given
        its results one by one, and asks for the next thing after each."""
        until = duration() + MORE
        while self._more and duration() < until:
            goes_on = next(iter(self._more))
            if goes_on():
                await checkpoint()
            else:
                self._more.discard(goes_on)
        self._more.clear()

    async def _commit_gathered(self) -> None:
        self._is_committing = True
        error: StoreError | None = None
        try:
            while not self._begin():  # noqa: ASYNC110 # another process holds the lock; it sends no event
                await anyio.sleep(RETRY_LOCK)
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
        with self._transaction(batch) as view:
            self._write(view, batch)
            if self._commit_time < SLOW_COMMIT:
                self._sync(view)
            else:
                self._in_flight = view.drafts
                await in_thread(partial(self._sync, view))

    def _begin(self) -> bool:
        try:
            return self.store.begin()
        except StoreRefused:
            raise
        except StoreError as death:
            self._perish(death)
            raise

    def _check_alive(self) -> None:
        if self.death is not None:
            raise StoreDied(str(self.death)) from self.death

    def _may_commit_now(self) -> bool:
        is_free = not self._is_committing and not self._gathering.slots and self._in_this_tick < FEW
        return is_free and self._commit_time < SLOW_COMMIT

    @contextmanager
    def _transaction(self, batch: _Batch) -> Iterator[View]:
        """Let the caller write and commit, whichever of it the store refuses, then make it live and known."""
        self._is_committing = True
        view = self.look()
        error: StoreError | None = None
        try:
            yield view
        except StoreRefused as refusal:
            error, view = self._take_back(refusal), self.look()
        except StoreError as death:
            self._perish(death)
            error, view = self.death, self.look()
        except BaseException as broken:
            self._perish(broken)
            batch.finish(self.death)
            raise
        self._land(view)
        batch.finish(error)
        self._publish(view.rows)

    def _write(self, view: View, batch: _Batch) -> None:
        """Run the plans on what is on disk by now, and write what they return."""
        if self.store.generation != self._generation:
            self._take_foreign(is_locked=True)
            self._generation = self.store.generation
            view.position = self.position
        for slot in batch.slots:
            self._run_plan(view, slot)
        self.store.write(view.rows)

    def _take_back(self, refusal: StoreRefused) -> StoreError | None:
        """Undo what the store did not take; returns what to tell those who wait."""
        try:
            self.store.rollback()
        except StoreError as death:
            self._perish(death)
            return self.death
        log.error("commit.refused", store=self.store.name, reason=str(refusal))
        return refusal

    def _take_foreign(self, *, is_locked: bool = False) -> None:
        """Take in entries of other processes. One that cannot be read (a newer program wrote it) is left out by the
        store: its session stops here, and under the lock our next position is behind it."""
        rows = self.store.rows(self.position)
        for row in rows:
            self.position = row.position
            if row.session in self.states and row.session not in self.notes:
                self.states[row.session].apply(row.event)
        for session in {row.session for row in rows} & self.notes.keys() - self.store.unreadable.keys():
            self._rebase(session)
        for session in self.store.unreadable.keys() & self.pinned:
            self._refuse(session, self.store.unreadable[session])
        if is_locked and self.store.unreadable:
            self.position = self.store.last_position()
        if rows:
            self._publish(rows)

    def _rebase(self, session: str) -> None:
        """Another process wrote to a session while its notes were not written: on disk they come behind."""
        entries = [row.event for row in self.store.journal(session) if row.position <= self.position]
        self.states[session] = replay(session, entries + self.notes[session])

    def _run_plan(self, view: View, slot: _Slot) -> None:
        length = len(view.rows)
        try:
            for session, event in list(slot.plan(view)):
                view.take(session, event)
        except (Exception, Suspended) as error:  # noqa: BLE001 # a plan is its caller's code: it gets what it raised
            if isinstance(error, IllegalEvent):
                log.error("event.refused", reason=str(error))
            slot.error = error
            if len(view.rows) > length:
                view.cut(length)

    def _sync(self, view: View) -> None:
        if not view.rows and not view.has_claimed:
            self.store.rollback()
            return
        before = duration()
        self.store.commit()
        if self.store.is_durable:  # what waits for no disk needs no thread, which virtual time would not wait for
            self._commit_time = duration() - before

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
        """The store has died for this process: nobody may wait for it, nothing in memory is trusted."""
        if self.death is not None:
            return
        self.death = error if isinstance(error, StoreError) else StoreDied(f"the writer died: {error!r}")
        log.error("store.died", store=self.store.name, reason=str(self.death))
        waiting, self._gathering = self._gathering, _Batch()
        waiting.finish(self.death)
        self._in_flight = {}
        self._ring_landed()
        self._die()


async def _wait_whatever_comes(event: anyio.Event, cut: Callable[[], AbstractContextManager[None]]) -> None:
    """Wait, and let no cancellation end it. One of a scope comes again at the next checkpoint; one that knows no scopes
    (asyncio's own timeouts) would not, and is raised afterwards.

    The shield is put up when there is something to keep off: to have it around each wait takes as long as the wait.
    """
    try:
        await event.wait()
    except anyio.get_cancelled_exc_class():
        with cut(), anyio.CancelScope(shield=True):
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
