"""Lists come page by page, of one store alone, and no long one holds the loop."""

from contextlib import AsyncExitStack
from functools import partial

import anyio
import pytest
from counting import STEP, CountingMemory, CountingSqlite, most_in_a_step
from scenes import opened
from watching import calls_of, next_of

from supervisor import Context, CursorUnknown, Deny, InvalidInput, NotFound, agent, tool
from supervisor.runtime.reading import sessions
from supervisor.runtime.reading.pieces import PIECE
from supervisor.runtime.reading.sessions import Trees
from supervisor.testing import replaced

pytestmark = pytest.mark.anyio
MANY = 250


@tool
async def deploy(target: str) -> str:
    return target


@agent
async def asks(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind


async def ask_one(ctx, target):
    await ctx.run(asks, target)


@agent
async def parent(ctx: Context, count: int) -> None:
    async with ctx.task_group() as tasks:
        for number in range(count):
            tasks.start_soon(ask_one, str(number))


@agent
async def early_and_late(ctx: Context) -> None:
    async with ctx.task_group() as tasks:
        tasks.start_soon(ask_one, "early")
        await ctx.receive()
        tasks.start_soon(ask_one, "late")


@agent
async def talks(ctx: Context, text: str) -> str:
    return text


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    return CountingMemory() if request.param == "memory" else CountingSqlite(tmp_path / "state.db")


async def activity_of(supervisor, session):
    async with supervisor.watch_activity(session) as activities:
        return await activities.look(limit=None, wholly=True)


async def wait_for_all(supervisor, count):
    with anyio.fail_after(60):
        while (await supervisor.get_counts()).pending_approvals < count:
            await anyio.sleep(0.1)


async def test_no_list_holds_the_loop(store):
    """However long it is, and whatever waits below a session: a piece of each kind, then others have their turn."""
    async with opened(store) as supervisor:
        await supervisor.start(parent, MANY, session="top")
        await wait_for_all(supervisor, MANY)
        views, most = await most_in_a_step(store, lambda: supervisor.find_sessions(limit=None))
        assert (len(views), len(views[0].pending_approvals)) == (MANY + 1, MANY)
        assert [len(view.pending_approvals) for view in views[1:]] == [1] * MANY
        assert most <= 3 * STEP < 3 * MANY
        tree, most = await most_in_a_step(store, lambda: supervisor.get_tree("top", entries=None))
        assert (len(tree.sessions), len(tree.entries) > 3 * MANY) == (MANY + 1, True)
        assert most <= 3 * STEP < 3 * MANY
        for read, count in [
            (lambda: supervisor.find_approvals(session="top", limit=None), MANY),
            (lambda: supervisor.find_audit(limit=None), MANY),
            (lambda: supervisor.find_entries("top", tree=True, limit=None), 3 * MANY),
            (lambda: supervisor.get_transcript("top"), 0),
            (lambda: supervisor.find_jobs(), 0),
        ]:
            found, most = await most_in_a_step(store, read)
            assert len(found) >= count
            assert most <= STEP < MANY


async def test_a_list_of_many_trees_remembers_few_of_them(store):
    """A tree that was forgotten is read again for its other sessions; what is pending in it is forgotten in pieces."""
    async with opened(store) as supervisor:
        await supervisor.start(early_and_late, session="top")
        for number in range(MANY):
            await supervisor.start(asks, str(number))
        await supervisor.send("top", "go on")
        await wait_for_all(supervisor, MANY + 2)
        found = list(await supervisor.find_sessions(limit=None))
        with (
            replaced(sessions, "MOST", 1),
            calls_of(Trees.view, lambda frame: len(frame.f_locals["self"]._known)) as known,
        ):
            assert list(await supervisor.find_sessions(limit=None)) == found
        assert max(known) <= 1 + PIECE < MANY


async def test_no_command_over_many_trees_holds_the_loop(store):
    """To resume all of them, to look for those that may be removed, and to remove them."""
    async with opened(store, passivate_after=0.0) as supervisor:
        for number in range(MANY):
            await supervisor.start(asks, str(number))
        await wait_for_all(supervisor, MANY)
    async with opened(store) as supervisor:
        before = supervisor._runner.clock.now()
        resumed, most = await most_in_a_step(store, supervisor.resume_all)
        assert (len(resumed), most <= 4 * PIECE < 3 * MANY) == (MANY, True), "claims, and reads of each tree"
        for dry_run in (True, False):
            found, most = await most_in_a_step(store, lambda dry=dry_run: supervisor.prune(before, dry_run=dry))
            assert len(found.kept) == MANY
            assert most <= STEP < MANY


async def test_a_long_inbox_does_not_hold_the_loop(store):
    """Neither its beginning, nor what waits for a session."""
    async with opened(store) as supervisor:
        await supervisor.start(parent, MANY, session="top")
        await wait_for_all(supervisor, MANY)
        for watch in (supervisor.watch_inbox(), supervisor.watch_approvals(session="top")):

            async def take_all(watch=watch):
                async with watch:
                    return [(await anext(watch)).id for _ in range(MANY)]

            found, most = await most_in_a_step(store, take_all)
            assert found == [each.id for each in await supervisor.find_approvals(limit=None)]
            assert most <= STEP < MANY


async def test_a_look_at_many_trees_that_sleep_does_not_hold_the_loop(store):
    """Of each the journal is read, at first and after a change. One look in between is given up: nothing is lost."""
    async with opened(store, passivate_after=0.0) as supervisor, supervisor.watch_activity() as activities:
        for number in range(MANY):
            await supervisor.start(asks, str(number))
        await wait_for_all(supervisor, MANY)
        with anyio.move_on_after(0) as given_up:
            await activities.look(limit=None, wholly=True)
        found, most = await most_in_a_step(store, lambda: activities.look(limit=None, wholly=True))
        assert given_up.cancelled_caught
        assert (len(found), {doing.kind for each in found for doing in each.doing}) == (MANY, {"approval"})
        assert most <= 3 * STEP < 3 * MANY


async def test_a_look_at_a_large_tree_does_not_hold_the_loop(store):
    """Nor does the beginning of a watch. Looks at the same time tell the same, and pages follow each other."""
    async with opened(store) as supervisor:
        await supervisor.start(parent, 2 * MANY, session="top")
        await wait_for_all(supervisor, 2 * MANY)
        told = {tuple(each.id for each in await supervisor.find_sessions(limit=None))}
        for session in ("top", None):
            found, most = await most_in_a_step(store, lambda session=session: activity_of(supervisor, session))
            told.add(tuple(each.session for each in found))
            assert most <= 2 * STEP < 2 * MANY
        async with supervisor.watch_activity() as activities:

            async def look(**which):
                told.add(tuple([each.session for each in await pages_of(activities.look, **which)]))

            async with anyio.create_task_group() as tasks:
                for limit in (70, 71, None):
                    tasks.start_soon(partial(look, wholly=True, limit=limit))
    assert [len(each) for each in told] == [2 * MANY + 1]


async def test_a_change_is_read_once_for_all_inboxes(store):
    """They are woken together, and get the same object."""
    async with opened(store) as supervisor, AsyncExitStack() as watching:
        await supervisor.start(asks, "x", session="s")
        await wait_for_all(supervisor, 1)
        (asked,) = page = await supervisor.find_approvals()
        inboxes = [await watching.enter_async_context(supervisor.watch_inbox(after=page.cursor)) for _ in range(20)]
        found = []

        async def follow(inbox):
            found.append(await anext(inbox))

        async with anyio.create_task_group() as tasks:
            for inbox in inboxes:
                tasks.start_soon(follow, inbox)
            await anyio.wait_all_tasks_blocked()
            store.steps = [0]
            await supervisor.decide(asked.id, Deny(by="ana"))
        assert (len(found), found[0].status, {id(each) for each in found}) == (20, "denied", {id(found[0])})
        assert sum(store.steps) < len(inboxes)


async def test_one_session_is_read_without_its_tree_and_without_a_journal(store):
    """Only itself, and what waits in its tree."""
    async with opened(store) as supervisor:
        run = await supervisor.start(parent, 3, session="top")
        await wait_for_all(supervisor, 3)
        child = (await supervisor.find_sessions())[1]
        store.steps, store.journals = [0], 0
        assert await supervisor.get_session(child.id) == child
        assert (sum(store.steps), store.journals) == (1 + 3 + 3, 0), "owner, approvals, sessions on their way up"
        await run.cancel()
    async with opened(store) as supervisor:
        store.journals = 0
        found = await supervisor.get_run("top")
        assert (found.number, (await found.outcome()).kind) == (1, "cancelled")
        assert store.journals == 0


async def pages_of(find, *, limit=1, **which):
    """Return the items of all pages."""
    page = await find(limit=limit, **which)
    found = [*page]
    while page.next is not None:
        page = await find(limit=limit, after=page.next, **which)
        found += page
    return found


async def test_pages_follow_each_other_without_gaps(store):
    """In both orders, with every filter; `cursor` is the instant of the read."""
    async with opened(store) as supervisor:
        for name in "abc":
            await (await supervisor.start(talks, name, session=name)).outcome()
        await supervisor.start(parent, 2, session="top")
        await wait_for_all(supervisor, 2)
        every = list(await supervisor.find_sessions(limit=None))
        assert await pages_of(supervisor.find_sessions) == every
        assert await pages_of(supervisor.find_sessions, newest_first=True) == every[::-1]
        assert await pages_of(supervisor.find_sessions, root="top", newest_first=True) == every[:2:-1]
        assert await pages_of(supervisor.find_sessions, agent="talks") == every[:3]
        assert await pages_of(supervisor.find_sessions, status="completed", newest_first=True) == every[2::-1]
        assert await pages_of(supervisor.find_sessions, is_open=True, newest_first=True) == every[:2:-1]
        assert await pages_of(supervisor.find_sessions, status="waiting_approval", is_open=False) == []
        asked = list(await supervisor.find_approvals())
        assert await pages_of(supervisor.find_approvals, session="top") == asked
        assert await pages_of(supervisor.find_approvals, session=asked[1].session) == asked[1:]
        rows = await pages_of(lambda **more: supervisor.find_entries("top", tree=True, **more))
        assert rows == list((await supervisor.get_tree("top", entries=None)).entries)
        assert await pages_of(supervisor.find_audit) == list(await supervisor.find_audit())


@agent
async def asks_often(ctx: Context, count: int) -> None:
    for number in range(count):
        await ctx.call(deploy, str(number))


@pytest.mark.parametrize("others", [1, 12])
async def test_a_page_of_entries_reads_what_it_shows(store, others):
    """However long the history is, and wherever the page is in it: of the audit trail, of a session, and of a tree,
    where each other session costs one look into the index at most."""
    async with opened(store, unattended="deny") as supervisor:
        for number in range(others):
            await (await supervisor.start(asks_often, 10, session=f"s{number}")).outcome()
        await (await supervisor.start(parent, others, session="top")).outcome()
        middle = (await supervisor.find_entries("top", limit=3)).next
        for read in (
            supervisor.find_audit,
            lambda **which: supervisor.find_entries("s0", **which),
            lambda **which: supervisor.find_entries("top", tree=True, **which),
        ):
            for after in (None, middle):
                store.steps, store.looks = [0], 0
                page = await read(after=after, limit=2)
                assert len(page) <= 2
                assert sum(store.steps) <= 2 * PIECE
                assert store.looks <= others


@agent
async def nested(ctx: Context, depth: int) -> None:
    if depth:
        await ctx.run(nested, depth - 1)
    await ctx.call(deploy, str(depth))


async def test_pages_of_a_part_of_a_tree_have_all_of_it_and_no_more(store):
    """Of a sub-agent and all below it, wherever a page begins."""
    async with opened(store, unattended="deny") as supervisor:
        await (await supervisor.start(nested, 5, session="top")).outcome()
        sessions = [view.id for view in await supervisor.find_sessions()]
        for top, part in ((sessions[0], sessions), (sessions[2], sessions[2:])):
            whole = [row for row in store.rows(0) if row.session in part]
            read = partial(supervisor.find_entries, top, tree=True)
            assert [row.position for row in await pages_of(read)] == [row.position for row in whole]


async def test_a_cursor_of_another_store_or_from_beyond_the_end_is_refused(store):
    """By every list and every watch, before anything is read."""
    async with opened() as other:
        await (await other.start(talks, "x", session="a")).outcome()
        strange = (await other.find_owners()).cursor
    async with opened(store) as supervisor:
        await (await supervisor.start(talks, "x", session="a")).outcome()
        for cursor, error in [(strange, CursorUnknown), (f"{store.id}.99999", CursorUnknown), ("7", InvalidInput)]:
            for read in (supervisor.find_sessions, supervisor.find_approvals, supervisor.find_audit):
                with pytest.raises(error):
                    await read(after=cursor)
            for watch in (supervisor.watch_inbox(after=cursor), supervisor.watch_session("a", after=cursor)):
                with pytest.raises(error):
                    async with watch:
                        pass
        with pytest.raises(InvalidInput):
            await supervisor.find_sessions(limit=0)


async def test_the_inbox_of_a_session_has_the_approvals_of_its_tree(store):
    """In the snapshot and after a page's cursor; the same for approvals that are pending."""
    async with opened(store) as supervisor:
        await supervisor.start(asks, "other", session="other")
        await supervisor.start(parent, 2, session="top")
        await wait_for_all(supervisor, 3)
        page = await supervisor.find_approvals(session="top")
        last = page[1]
        async with supervisor.watch_inbox(session="top") as inbox, supervisor.watch_approvals(session="top") as asked:
            assert [(await anext(inbox)).id for _ in page] == [each.id for each in page]
            assert [(await anext(asked)).id for _ in page] == [each.id for each in page]
        await supervisor.decide((await next_of(supervisor.watch_approvals(session="other"))).id, Deny(by="ana"))
        await supervisor.decide(last.id, Deny(by="ana"))
        async with supervisor.watch_inbox(session=last.session, after=page.cursor) as inbox:
            assert (await anext(inbox)).id == last.id
        with pytest.raises(NotFound):
            async with supervisor.watch_inbox(session="nowhere"):
                pass
