"""Shared parts of tests on virtual time: their fixtures, readers of a journal, and stores that record or fail."""

from collections.abc import Callable
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio
import pytest
import sniffio
from dying import fork

from supervisor import MemoryStore, StoreUnreadable, open_supervisor, tool
from supervisor.channels import Channel
from supervisor.channels.sdk import all_facts
from supervisor.core.ids import STORE_JOURNALS
from supervisor.core.sessions.state import replay_journal
from supervisor.runtime import starting
from supervisor.testing import fast_disk, virtual_asyncio, virtual_trio, wrapped

LONG = 30 * 86_400.0
only_asyncio = pytest.mark.parametrize("virtual_backend", [virtual_asyncio], indirect=True, ids=["asyncio"])
"""Skips trio, which has no native cancellation: one of a task itself, without a scope or a shield."""


def also_native(name, *values):
    """Parametrize by these values on both backends, and by `native` on the backend whose tasks can be cancelled."""
    on_both = [(backend, value) for backend in (virtual_asyncio, virtual_trio) for value in values]
    ids = [f"{backend.__name__.removeprefix('virtual_')}-{value}" for backend, value in on_both]
    cases = [(virtual_asyncio, "native"), *on_both]
    return pytest.mark.parametrize(
        ("virtual_backend", name), cases, indirect=["virtual_backend"], ids=["asyncio-native", *ids]
    )


effects: list[str] = []
"""What has happened in this test."""


@tool
async def deploy(target: str) -> str:
    effects.append(target)
    return target


@pytest.fixture
def anyio_backend(virtual_backend):
    """Time is virtual, on both backends."""
    return virtual_backend


@pytest.fixture(autouse=True)
def no_commit_is_slow():
    """Keep all commits in the loop: a slow commit goes to a thread, for which the virtual clock does not wait. So no
    disk decides a test."""
    with fast_disk():
        yield


@pytest.fixture(autouse=True)
def nothing_has_happened():
    effects.clear()


@asynccontextmanager
async def opened(store=None, **options):
    """Open a supervisor on virtual time. A test that hangs fails after a month of it."""
    with anyio.fail_after(LONG):
        async with open_supervisor(MemoryStore() if store is None else store, **options) as supervisor:
            yield supervisor


@contextmanager
def knowing_no_agents():
    """Be a program that has declared none of the tests' agents, as the command line is."""
    with wrapped(starting, "find_declared", lambda *_: None):
        yield


def events(store, session: str, kind: Any = object) -> list[Any]:
    """Return a session's events of a kind, in order."""
    return [row.event for row in store.journal(session) if isinstance(row.event, kind)]


def names(store, session: str) -> list[str]:
    """Return the names of a session's events, in order."""
    return [type(event).__name__ for event in events(store, session)]


def replayed(store, session: str):
    """Return the state of a session by a replay of its journal."""
    return replay_journal(session, events(store, session))


def sessions_in_memory(supervisor) -> set[str]:
    """Return the sessions whose state is in memory."""
    return {*supervisor._runner.journal.states} - STORE_JOURNALS


def freeze(seconds: float) -> None:
    """Block the loop: its clock moves on while nothing runs."""
    if sniffio.current_async_library() == "trio":
        import trio

        trio.lowlevel.current_clock().jump(seconds)
    else:
        import asyncio

        asyncio.get_running_loop()._jumping.now += seconds


class ForkingStore(MemoryStore):
    """Keeps a copy of itself after each commit: the store that a process leaves if it is killed there."""

    def __init__(self, look: Callable[[], Any] = lambda: None) -> None:
        super().__init__()
        self.copies: list[tuple[MemoryStore, Any]] = []
        self._look = look

    def commit(self) -> None:
        super().commit()
        self.copies.append((fork(self), self._look()))


class DamagedStore(MemoryStore):
    """A store in which the journal of one session cannot be read any more."""

    damaged = ""

    def journal(self, session: str, *args: Any, **options: Any) -> list[Any]:
        if session == self.damaged:
            raise StoreUnreadable("a journal entry cannot be read")
        return list(super().journal(session, *args, **options))


class HeldStore(MemoryStore):
    """A store that another process holds while `is_held`: commits gather."""

    is_held = False

    def begin(self) -> bool:
        return not self.is_held and super().begin()


class FaultyStore(MemoryStore):
    """Calls `fault` before its n-th commit of entries, or at another `step` before its n-th write. `fault` may
    raise."""

    def __init__(self, nth: int, fault: Callable[[], None], step: str = "commit") -> None:
        super().__init__()
        self._left = nth
        self._fault = fault
        self._step = step

    def write(self, rows) -> None:
        self._reach("write")
        super().write(rows)

    def commit(self) -> None:
        self._reach("commit")
        super().commit()

    def _reach(self, step: str) -> None:
        self._left -= step == self._step
        if not self._left:
            self._left = -1
            self._fault()


class Wall(Channel):
    """Shows every card at once, and whole."""

    name = "wall"

    def shows(self, approval):
        return all_facts(approval, approval.created_at)

    async def serve(self, supervisor):
        await anyio.sleep_forever()

    async def post(self, approval, card):
        return "card"

    async def retire(self, approval, card):
        pass
