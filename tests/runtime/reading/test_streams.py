"""Watches have no gaps, return nothing twice, and end when the supervisor closes."""

import anyio
import pytest
from watching import next_of

from supervisor import Approve, Context, MemoryStore, NotFound, agent, open_supervisor, tool

pytestmark = pytest.mark.anyio


@tool
async def deploy(target: str) -> str:
    return target


@agent
async def asks(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).content


async def test_every_stream_ends_when_the_supervisor_is_left():
    """A reader that outlives the supervisor gets the end, and does not read a closed store."""
    ended = []

    async def read(stream):
        async with stream:
            async for _ in stream:
                pass
        ended.append(stream)

    async with anyio.create_task_group() as readers, open_supervisor(MemoryStore()) as supervisor:
        run = await supervisor.start(asks, "a")
        streams = [supervisor.watch_approvals(), supervisor.watch_inbox(), supervisor.watch_session(run.session)]
        for stream in streams:
            readers.start_soon(read, stream)
        await anyio.sleep(1)
        assert not ended
    assert sorted(map(id, ended)) == sorted(map(id, streams))


async def test_the_inbox_shows_an_approval_that_the_agent_itself_abandoned():
    """R3: a scope of the agent cancels the call. An inbox that opened after the request shows that, too."""

    @agent
    async def impatient(ctx: Context) -> None:
        async with ctx.move_on_after(10):
            await ctx.call(deploy, "a")

    async with open_supervisor(MemoryStore()) as supervisor:
        run = await supervisor.start(impatient)
        asked = await next_of(run.watch_approvals())
        async with supervisor.watch_inbox() as inbox:
            assert (await anext(inbox)).status == "pending"
            with anyio.fail_after(60):
                told = await anext(inbox)
            assert (told.id, told.status) == (asked.id, "withdrawn")
            assert (await supervisor.decide(asked.id, Approve(by="ana"))).kind == "closed"


async def test_a_watch_of_a_journal_gets_its_end_although_the_supervisor_closes():
    """R9: the last entry of a session is on disk, and reaches a reader that has not read it when the store closes."""

    @agent
    async def says(ctx: Context) -> None:
        for text in "ab":
            await ctx.send(text)

    heard, has_begun, may_go_on = [], anyio.Event(), anyio.Event()

    async def read(stream):
        async with stream:
            async for row in stream:
                heard.append(getattr(row.event, "text", None))
                has_begun.set()
                await may_go_on.wait()

    async with anyio.create_task_group() as readers:
        async with open_supervisor(MemoryStore()) as supervisor:
            run = await supervisor.start(says)
            readers.start_soon(read, supervisor.watch_session(run.session, stay=True))
            await has_begun.wait()
        may_go_on.set()
    assert [text for text in heard if text] == ["a", "b"]


async def test_a_watch_is_opened_before_it_is_iterated_over_and_is_closed_afterwards():
    """A watch that was not opened, or was closed, raises."""
    async with open_supervisor(MemoryStore()) as supervisor:
        watch = supervisor.watch_inbox()
        with pytest.raises(RuntimeError):
            await anext(watch)
        async with watch:
            pass
        with pytest.raises(RuntimeError):
            await anext(watch)
        with pytest.raises(NotFound):
            async with supervisor.watch_session("nosuch"):
                pass


class CountedStore(MemoryStore):
    """Counts the reads that a watch of approvals makes, which are round trips over a network."""

    reads = 0

    def find_approvals(self, *given, **options):
        self.reads += 1
        return super().find_approvals(*given, **options)


async def test_a_watch_of_approvals_reads_the_store_once_for_what_is_asked():
    """No decision, and no other entry, makes it read again."""
    store, told = CountedStore(), []

    async def decide(supervisor):
        async with supervisor.watch_approvals() as watch:
            async for approval in watch:
                told.append((approval.id, store.reads))
                await supervisor.decide(approval.id, Approve(by="ana"))

    async with anyio.create_task_group() as readers, open_supervisor(store) as supervisor:
        readers.start_soon(decide, supervisor)
        for target in "abc":
            await (await supervisor.start(asks, target)).outcome()
    assert len({approval for approval, _ in told}) == 3
    assert store.reads <= 1 + len(told)
