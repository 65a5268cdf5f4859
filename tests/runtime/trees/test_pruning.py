"""Which trees may be removed, and why the others stay."""

from datetime import timedelta

import anyio
import pytest
from scenes import opened
from watching import next_of

from supervisor import Context, Deny, MemoryStore, agent, tool
from supervisor.core import events as e

pytestmark = pytest.mark.anyio


@tool
async def deploy(target: str) -> str:
    return target


@agent
async def child(ctx: Context) -> int:
    return 1


@agent
async def parent(ctx: Context) -> int:
    return await ctx.run(child)


@agent
async def asks(ctx: Context) -> str:
    return (await ctx.call(deploy, "here")).content


@agent
async def chats(ctx: Context, text: str) -> str:
    if text == "wait":
        await ctx.sleep(1000)
    return text


async def test_only_old_trees_that_have_ended_are_removed():
    """An open tree, a young one, and one that a process owns stay. A removed tree is gone with its sub-agents."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(parent, session="old")).result()
        await supervisor.start(asks, session="open")
        await anyio.sleep(1000)
        at = supervisor._runner.clock.now() - timedelta(seconds=500)
        await (await supervisor.start(parent, session="young")).result()
        assert (await supervisor.prune(at, dry_run=True)).trees == []  # this process still holds it
    async with opened(store) as supervisor:
        found = await supervisor.prune(at, dry_run=True)
        assert [(tree.session, tree.sessions) for tree in found.trees] == [("old", 2)]
        assert {tree.session for tree in found.kept} == {"open", "young"}
        assert len({tree.reason for tree in found.kept}) == 2
        assert await supervisor.prune(at) == found
        again = await supervisor.prune(at, only=["open", "young", "old"])
        assert (again.trees, {tree.session for tree in again.kept}) == ([], {"open", "young", "old"})
        assert {view.root for view in await supervisor.find_sessions()} == {"open", "young"}


async def test_a_decision_about_a_tree_that_is_just_being_removed_is_unknown():
    """A3: the approval exists when the caller looks for it, and does not exist when its decision is to be written."""

    class Leaky(MemoryStore):
        def find_asking(self, approval: str) -> tuple[str, str] | None:
            found = super().find_asking(approval)
            self._forget({"s"})
            return found

    async with opened(Leaky()) as supervisor:
        run = await supervisor.start(asks, session="s")
        approval = await next_of(run.watch_approvals())
        await run.cancel()
        await anyio.sleep(1)
        assert (await supervisor.decide(approval.id, Deny(by="ana"))).kind == "unknown"


async def test_a_search_goes_on_past_a_tree_that_another_process_removes_meanwhile():
    """It was listed, and is gone when its journals are read."""

    class Leaky(MemoryStore):
        leaks = False

        def get_owner(self, root):
            if self.leaks:
                self._forget({root})
            return super().get_owner(root)

    store = Leaky()
    async with opened(store) as supervisor:
        await (await supervisor.start(parent, session="s")).result()
    async with opened(store) as supervisor:
        store.leaks = True
        await anyio.sleep(1)
        found = await supervisor.prune(supervisor._runner.clock.now(), dry_run=True)
    assert (found.trees, [tree.session for tree in found.kept]) == ([], ["s"])


async def test_an_unread_message_or_an_unfinished_job_keeps_a_tree():
    """Its sender, or its session, still waits (R7, T6)."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(chats, "wait", session="told")
        await supervisor.send("told", "and this", by="ann")
        await supervisor.cancel("told")
        await supervisor.start(chats, "wait", session="working")
        facts = {"command": "make", "host": "h", "process": 1, "process_started_at": None, "guard": 2}
        job = e.JobStarted(
            at=supervisor._runner.clock.now(), job="j", operation="o#1", guard_started_at=None, log="", **facts
        )
        await supervisor._runner.journal.append(lambda view: [("working", job)])
        await supervisor.cancel("working")
    async with opened(store) as supervisor:
        later = supervisor._runner.clock.now() + timedelta(days=1)
        found = await supervisor.prune(later)
        assert (found.trees, {tree.session for tree in found.kept}) == ([], {"told", "working"})


async def test_changes_between_finding_and_removing_count():
    """The transaction that removes checks all conditions again: a turn that began meanwhile keeps the tree."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(chats, "hello", session="s")).result()
    async with opened(store) as supervisor:
        later = supervisor._runner.clock.now() + timedelta(days=1)
        (found,) = (await supervisor.prune(later, dry_run=True)).trees
        await supervisor.send("s", "wait", by="ann")
        (kept,) = (await supervisor.prune(later, only=[found.session])).kept
        assert kept.session == "s"
        assert (await supervisor.get_session("s")).outcome is None
