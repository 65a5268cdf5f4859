"""A disk that is full, or fails to sync, at any append: no effect begins before its journal entry, and runs go on."""

import itertools

import anyio
import pytest
from calling import events
from real_processes import new_marker, no_descriptor_left, processes_with, real_backend  # noqa: F401 - fixtures
from test_call_crash import three_calls

from supervisor import SqliteStore, StoreDied, StoreRefused, SupervisorError, open_supervisor
from supervisor.core import events as e

pytestmark = pytest.mark.anyio


class FailingStore(SqliteStore):
    """Fails every commit from the n-th on, until the test raises `nth`."""

    def __init__(self, path, nth, error):
        super().__init__(path)
        self.nth, self.error, self.commits = nth, error, 0

    def commit(self):
        self.commits += 1
        if self.commits >= self.nth:
            raise self.error(f"the disk under {self.path} took no more")
        super().commit()


def effects(folder):
    """Return how often each effect happened."""
    files = (folder / name for name in ("first", "second", "third"))
    return [len(file.read_text().splitlines()) if file.exists() else 0 for file in files]


def begun(store):
    """Return how many calls are or were executing, as the disk has it."""
    return len(events(store, "s", e.ToolCallStarted))


async def go_on(supervisor, given):
    return await (await supervisor.start(three_calls, given, session="s")).result()


async def error_of(supervisor, given):
    """Go on; return the error that was raised, None if there was none."""
    try:
        await go_on(supervisor, given)
    except SupervisorError as error:
        return error
    return None


def check(results, folder):
    for result, count in zip(results, effects(folder), strict=True):
        assert (result["kind"], count) == ("ok", 1) or (result["details"]["reason"] == "lost" and count <= 1)


@pytest.mark.slow
async def test_a_full_disk_at_any_append_suspends_and_a_resume_goes_on(marker, tmp_path):
    """The same process goes on once there is room; a call whose start was not written has not begun."""
    for nth in itertools.count(1):
        folder = tmp_path / str(nth)
        folder.mkdir()
        given = {"folder": str(folder), "marker": marker}
        store = FailingStore(folder / "state.db", nth, StoreRefused)
        with anyio.fail_after(60):
            async with open_supervisor(store, unattended="allow") as supervisor:
                if (error := await error_of(supervisor, given)) is None:
                    break
                assert str(store.path) in str(error)
                assert [view.outcome for view in await supervisor.find_sessions()] in ([], [None])
                assert sum(effects(folder)) <= begun(store)
                store.nth = 1_000_000
                check(await go_on(supervisor, given), folder)
                assert processes_with(marker) == []
    assert nth > 9


@pytest.mark.slow
async def test_a_failed_sync_at_any_append_ends_only_the_process(marker, tmp_path):
    """A failed sync ends the process only: a new start goes on from what is on disk."""
    for nth in itertools.count(1):
        folder = tmp_path / str(nth)
        folder.mkdir()
        given = {"folder": str(folder), "marker": marker}
        store = FailingStore(folder / "state.db", nth, StoreDied)
        with anyio.fail_after(60):
            try:
                async with open_supervisor(store, unattended="allow") as supervisor:
                    await go_on(supervisor, given)
                break
            except StoreDied as error:
                told = str(error)
            assert str(store.path) in told
            assert processes_with(marker) == []
            after = SqliteStore(store.path)
            async with open_supervisor(after, unattended="allow") as supervisor:
                assert sum(effects(folder)) <= begun(after)
                check(await go_on(supervisor, given), folder)
    assert nth > 9
