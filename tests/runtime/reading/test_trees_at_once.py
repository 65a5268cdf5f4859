"""A tree is read up to one instant, its cursor. A tree that fits in one piece is read in one instant."""

import anyio
import pytest
from anyio.lowlevel import checkpoint
from watching import next_of

from supervisor import Approve, Context, MemoryStore, NotFound, SqliteStore, agent, open_supervisor, tool
from supervisor.runtime.reading.pieces import PIECE

pytestmark = pytest.mark.anyio


@tool
async def deploy(target: str) -> str:
    return target


@agent
async def asks(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).content


@agent
async def chief(ctx: Context) -> list[str]:
    return [await ctx.run(asks, "a"), await ctx.run(asks, "b")]


async def decided(supervisor):
    """Run the chief to its end. Return its sessions: itself, then its sub-agents."""
    run = await supervisor.start(chief, session="s")
    for _ in range(2):
        asked = await next_of(run.watch_approvals())
        await supervisor.decide(asked.id, Approve(by="ana"))
    await run.outcome()
    return [view.id for view in await supervisor.find_sessions()]


async def test_a_tree_has_every_session_and_every_entry_in_order():
    """It has all sessions of the tree, and the entries of the session and those below it."""
    async with open_supervisor(MemoryStore()) as supervisor:
        sessions = await decided(supervisor)
        tree = await supervisor.get_tree("s")
        assert [view.id for view in tree.sessions] == sessions
        assert list(tree.entries) == supervisor.store.rows(0)
        assert (tree.cursor, tree.left_out) == ((await supervisor.find_owners()).cursor, 0)
        part = await supervisor.get_tree(sessions[1])
        assert {row.session for row in part.entries} == {sessions[1]}
        assert [view.id for view in part.sessions] == sessions
        with pytest.raises(NotFound):
            await supervisor.get_tree("nothing")


async def test_journals_are_complete_and_the_number_of_omitted_ones_is_given():
    """The session's own journal is always there, and the others until the result has so many entries."""
    async with open_supervisor(MemoryStore()) as supervisor:
        sessions = await decided(supervisor)
        own = len(await supervisor.find_entries("s"))
        for entries, count in [(0, 1), (own, 1), (own + 1, 2), (None, 3)]:
            tree = await supervisor.get_tree("s", entries=entries)
            assert {row.session for row in tree.entries} == {*sessions[:count]}
            assert tree.left_out == 3 - count
            whole = [len(await supervisor.find_entries(each)) for each in sessions[:count]]
            assert len(tree.entries) == sum(whole)


class Removing(SqliteStore):
    """Lets another process remove the whole tree just before the next journal is read."""

    is_removing = False

    def journal(self, *which, **only):
        if self.is_removing:
            self.is_removing = False
            self.remove_elsewhere()
        return super().journal(*which, **only)

    def remove_elsewhere(self):
        other = SqliteStore(self.path)
        other.open()
        other.begin()
        other.remove("s")
        other.commit()
        other.close()


async def test_a_tree_that_another_process_removes_meanwhile_is_complete(tmp_path):
    """Afterwards the tree does not exist."""
    path = tmp_path / "state.db"
    async with open_supervisor(path) as supervisor:
        sessions = await decided(supervisor)
        known = await supervisor.get_tree("s")
    store = Removing(path)
    async with open_supervisor(store) as supervisor:
        store.is_removing = True
        tree = await supervisor.get_tree("s")
        assert ([view.id for view in tree.sessions], tree.entries) == (sessions, known.entries)
        with pytest.raises(NotFound):
            await supervisor.get_tree("s")


async def test_a_large_tree_ends_at_its_cursor_whatever_is_written_meanwhile():
    """A watch that continues from the cursor returns the rest."""
    async with open_supervisor(MemoryStore()) as supervisor:
        await decided(supervisor)
        for number in range(2 * PIECE):
            await supervisor.note_shown("s", f"mark {number}", channel="web")
        before = list(await supervisor.find_entries("s", tree=True, limit=None))

        async def write():
            for _ in range(3):  # the first piece has been read
                await checkpoint()
            await supervisor.note_shown("s", "mark", channel="web")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            tree = await supervisor.get_tree("s", entries=None)
        assert len(await supervisor.find_entries("s", tree=True, limit=None)) == len(before) + 1
        assert list(tree.entries) == before
