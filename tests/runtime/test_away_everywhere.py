"""A server that is away at any one of its reads ends no process, no run and no channel, and nothing is missed.

A program runs once, while its store notes each place in the package from where it is read. Then it runs again for each
of these places: there, the store is away as the read comes, and answers after some seconds.
"""

import inspect
import sys
from contextlib import AsyncExitStack, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from math import inf
from pathlib import Path

import anyio
import pytest
import sniffio
from scenes import Wall, deploy, effects, opened

import supervisor
from supervisor import (
    Answer,
    Approve,
    Budget,
    Context,
    Limit,
    MemoryStore,
    Schedule,
    StepContext,
    StoreRefused,
    Usage,
    agent,
)
from supervisor.seam.store import Store, StoreAway
from supervisor.testing import wall_clock

pytestmark = pytest.mark.anyio

PACKAGE = str(Path(supervisor.__file__).parent)
STORES = f"{PACKAGE}/store"
AWAY_SECONDS = 3.0
MIDNIGHT = datetime(2027, 1, 1, tzinfo=UTC)
IN_MEMORY = {"open", "close", "begin", "write", "commit", "rollback", "attend", "skew", "owns", "claim", "claim_all",
             "remove", "has_changed", "wants_checkpoint", "checkpoint", "compact", "secret", "book"}  # fmt: skip
READS = [name for name, _ in inspect.getmembers(Store, inspect.isfunction) if name[0] != "_" and name not in IN_MEMORY]


class AwayStore(MemoryStore):
    """Notes from where it is read outside of transactions. At the first read from `place` it begins to be away."""

    is_durable = True

    def __init__(self, place=None):
        super().__init__()
        self.place, self.places, self._until, self._is_within = place, {}, -inf, True

    def open(self):
        self._is_within = True  # whoever opens a store is told that it is away
        super().open()

    def attend(self):
        self._is_within = False

    def begin(self):
        if anyio.current_time() < self._until:
            return False
        with self._within():
            return super().begin()

    @contextmanager
    def _within(self):
        before, self._is_within = self._is_within, True
        yield
        self._is_within = before

    def answer(self, read):
        if not self._is_within and self._draft is None:
            place = place_of(sys._getframe(2), read)
            self.places[place] = None
            if place == self.place and self._until == -inf:
                self._until = anyio.current_time() + AWAY_SECONDS
            if anyio.current_time() < self._until:
                raise StoreAway("it does not answer")
        with self._within():
            return read()


def place_of(frame, read):
    """Return the two innermost lines of the package that ask a store."""
    found = [read.func.__name__]
    while frame is not None and len(found) < 3:
        if (file := frame.f_code.co_filename).startswith(PACKAGE) and not file.startswith(STORES):
            found.append(f"{file.removeprefix(PACKAGE)}:{frame.f_lineno}")
        frame = frame.f_back
    return " < ".join(found)


def _that_answers(read):
    return lambda self, *args, **options: self.answer(partial(read, self, *args, **options))


for _name in READS:
    setattr(AwayStore, _name, _that_answers(getattr(MemoryStore, _name)))


async def request(step: StepContext) -> None:
    step.used(Usage(model="m", requests=1))


@agent(limit="agents")
async def helper(ctx: Context) -> str:
    return await ctx.ask("Which one?", choices=["a", "b"])


@agent(budget=Budget(requests=1))
async def whole(ctx: Context) -> list:
    """Waits for a decision, a timer, the answer to a sub-agent, a message, and a larger budget."""
    found = [(await ctx.call(deploy, "once")).kind]
    await ctx.sleep(10)
    found += [await (await ctx.spawn(helper)).result(), await ctx.receive()]
    for _ in range(2):
        async with ctx.model_call():
            await ctx.step(request)
    ctx.transcript()
    return [*found, len(ctx.saved_before())]


@agent
async def report(ctx: Context) -> str:
    return (await ctx.call(deploy, "report")).kind


@agent
async def older(ctx: Context, name: str) -> str:
    return (await ctx.call(deploy, name)).kind


@contextmanager
def note_for_a_failure(text):
    try:
        yield
    except BaseException as error:
        error.add_note(text)
        raise


def answer_to(approval):
    return Answer(value="b", by="ana") if approval.kind == "question" else Approve(by="ana")


async def be_a_person(supervisor):
    """Decide what has waited for some seconds, and again if that is refused."""
    while True:
        await anyio.sleep(5)
        with suppress(StoreRefused):
            for approval in await supervisor.find_approvals():
                await supervisor.decide(approval.id, answer_to(approval))


async def patiently(act):
    while True:
        try:
            return await act()
        except StoreRefused:
            await anyio.sleep(1)


async def watch(begin, found, *, task_status):
    async with AsyncExitStack() as stack:
        watched = await patiently(lambda: stack.enter_async_context(begin()))
        task_status.started()
        async for each in watched:
            found.append(each)


async def live(store):
    """Let a process leave two trees, and another one take them up, cancel one, run others, and end all."""
    inbox, entries, hourly = [], [], Schedule("hourly", "report", cron="0 * * * *")
    options = {"agents": [report], "channels": [Wall()], "limits": [Limit("agents", at_once=1)], "schedules": [hourly]}
    async with opened(store) as supervisor:
        for name in ("older", "cancelled"):
            await patiently(partial(supervisor.start, older, name, session=name))
        await anyio.sleep(1)
    async with (
        opened(store, adopt=True, passivate_after=1, remind_after=3, **options) as supervisor,
        anyio.create_task_group() as tasks,
    ):
        await tasks.start(watch, supervisor.watch_inbox, inbox)
        run = await patiently(partial(supervisor.start, whole, session="s"))
        await tasks.start(watch, partial(supervisor.watch_session, "s"), entries)
        await patiently(partial(supervisor.send, "s", "hello", by="ana"))
        await anyio.sleep(2)
        await patiently(partial(supervisor.cancel, "cancelled", by="ana"))
        tasks.start_soon(be_a_person, supervisor)
        assert await run.result() == ["ok", "b", "hello", 0]
        await anyio.sleep(60)
        while await patiently(partial(supervisor.find_sessions, is_open=True)):
            await anyio.sleep(1)
        await anyio.sleep(10)  # what watches hear of the last entries
        tasks.cancel_scope.cancel()
    return inbox, entries


async def check(store):
    """Run the program, and check that all of it happened once and that nothing was missed."""
    effects.clear()
    with wall_clock() as shown:
        shown.ahead = (MIDNIGHT - timedelta(seconds=30) - datetime.now(UTC)).total_seconds()
        inbox, entries = await live(store)
    left = store.copy()
    outcomes = {row.id: row.outcome.kind for row in left.find_sessions()}
    assert outcomes.pop("cancelled") == "cancelled"
    assert {*outcomes.values()} == {"succeeded"}
    assert sorted(effects) == ["older", "once", *["report"] * (len(outcomes) - 3)]
    assert [row.position for row in entries] == [row.position for row in left.journal("s")]
    decided = {each.id for each in left.find_approvals(pending=False)}
    assert decided == {each.id for each in inbox if each.status != "pending"}


MADE = [
    "find_approvals", "find_asked_in", "find_asking", "find_sessions", "find_shown", "get_approval",
    "get_owners", "get_session", "get_sessions", "give_place_back", "journal", "last_position", "latest_run",
    "one_instant", "owners", "rows", "take_place",
]  # fmt: skip
"""The reads that the program makes."""
SOMETIMES = ["find_open"]
"""Of the look for trees without an owner, which begins at a random instant."""


_places: dict[str, list[str]] = {}


async def all_places():
    """Return the places of a run of the program on this backend."""
    if (backend := sniffio.current_async_library()) not in _places:
        await check(store := AwayStore())
        assert {*MADE} <= {place.partition(" ")[0] for place in store.places} <= {*MADE, *SOMETIMES}
        _places[backend] = [*store.places]
    return _places[backend]


@pytest.mark.parametrize("read", MADE + SOMETIMES)
async def test_a_store_that_is_away_as_it_is_read_from_any_place_ends_nothing_and_loses_nothing(read):
    """The next reads and commits wait for it, and what was to happen happens once."""
    for place in await all_places():
        if place.startswith(f"{read} "):
            with note_for_a_failure(f"away at {place}"):
                await check(AwayStore(place))
