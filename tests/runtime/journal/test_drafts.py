"""Live states hold what is on disk, even if plans and commits are refused."""

from contextlib import suppress
from datetime import UTC, datetime
from random import Random

import anyio
import msgspec
import pytest
from scenes import HeldStore, opened, replayed

from supervisor import Context, StoreRefused, agent
from supervisor.core import events as e
from supervisor.core.errors import IllegalEvent
from supervisor.core.sessions import overlay
from supervisor.core.sessions.overlay import MapOverlay
from supervisor.testing import replaced

pytestmark = pytest.mark.anyio
AT = datetime(2026, 1, 1, tzinfo=UTC)


class RefusingStore(HeldStore):
    """Refuses every commit while `is_full`."""

    is_full = False

    def commit(self) -> None:
        if self.is_full:
            raise StoreRefused("no room")
        super().commit()


@agent
async def idle(ctx: Context) -> None:
    await anyio.sleep(1_000_000)


def _plan(random: Random) -> list[tuple[str, e.AnyEvent]]:
    """Return a few events of two sessions: steps, spawned children and their ends, received and taken messages."""
    found: list[tuple[str, e.AnyEvent]] = []
    for _ in range(random.randint(1, 4)):
        number = random.randint(1, 6)
        name, child, message = f"step:f:0#{number}", f"child{number}", f"m{number}"
        event = random.choice(
            [
                e.OperationFinished(at=AT, operation=name, kind="step"),
                e.OperationFinished(at=AT, operation=f"spawn:a:0#{number}", kind="spawn", child=child),
                e.ChildEnded(at=AT, child=child, kind="succeeded"),
                e.MessageReceived(at=AT, message=message, text="go on", by="ana"),
                e.OperationFinished(at=AT, operation=f"receive::0#{number}", kind="receive", message=message),
                e.StateSaved(at=AT, state=msgspec.Raw(b"1"), counts={"step:f:0": number}),
            ]
        )
        found.append((random.choice(["a", "b"]), event))
    return found


@pytest.mark.parametrize("seed", range(10))
async def test_live_states_equal_the_journal_although_plans_and_commits_are_refused(seed, enter):
    """A3, A5: plans come in one batch, and some raise half-way. The store refuses some of the commits."""
    enter(replaced(overlay, "SMALL", -1))  # small sessions are overlaid, too
    random, store = Random(seed), RefusingStore()

    async def append(journal, plan) -> None:
        try:
            await journal.append(lambda view: plan)
        except (IllegalEvent, StoreRefused) as refusal:
            refused.append(type(refusal))

    refused: list[type[Exception]] = []
    async with opened(store) as supervisor:
        journal = supervisor._runner.journal
        runs = [await supervisor.start(idle, session=name) for name in "ab"]
        for _ in range(40):
            before = {name: replayed(store, name) for name in "ab"}
            store.is_held, store.is_full = True, random.random() < 0.3
            async with anyio.create_task_group() as tasks:
                for _ in range(random.randint(1, 3)):
                    tasks.start_soon(append, journal, _plan(random))
                await anyio.sleep(0.1)
                assert {name: journal.states[name] for name in "ab"} == before
                store.is_held = False
            assert {name: journal.states[name] for name in "ab"} == {name: replayed(store, name) for name in "ab"}
            assert not any(isinstance(journal.states[name].operations, MapOverlay) for name in "ab"), "drafts pile up"
            store.is_full = False
        assert {*refused} == {IllegalEvent, StoreRefused}
        for run in runs:
            ended = [
                e.ChildEnded(at=AT, child=child, kind="failed") for child in journal.states[run.session].open_children
            ]
            await append(journal, [(run.session, event) for event in ended])
            await run.cancel()


@pytest.mark.parametrize("seed", range(10))
async def test_notes_are_written_once_and_in_order_although_plans_and_commits_are_refused(seed):
    """A batch may hold only notes of a session, next to plans that raise. What is noted meanwhile is written later."""
    random, store, noted = Random(seed), RefusingStore(), list[str]()
    legal, illegal = ("a", e.MessageSent(at=AT, text="legal")), ("a", e.ChildEnded(at=AT, child="none", kind="failed"))

    async def note(journal) -> None:
        text = str(len(noted))
        noted.append(text)
        assert await journal.note("a", lambda: e.Reported(at=AT, kind="plan", text=text))

    async def append(journal, events=None) -> None:
        with suppress(IllegalEvent, StoreRefused):
            await journal.append(lambda view: view.write_notes("a") if events is None else events)

    async with opened(store) as supervisor:
        journal = supervisor._runner.journal
        run = await supervisor.start(idle, session="a")
        for _ in range(40):
            store.is_held, store.is_full = True, random.random() < 0.3
            async with anyio.create_task_group() as tasks:
                for _ in range(random.randint(1, 4)):
                    await note(journal)
                    tasks.start_soon(append, journal, random.choice([None, [legal], [legal, illegal]]))
                await anyio.sleep(0.1)
                store.is_held = False
        store.is_full = False
        await append(journal)
        assert [row.event.text for row in store.journal("a") if isinstance(row.event, e.Reported)] == noted
        assert (journal.states["a"], journal.count_notes("a")) == (replayed(store, "a"), 0)
        await run.cancel()
