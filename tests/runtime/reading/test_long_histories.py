"""What a command or a watch reads does not grow with the history of a session, and nothing is read in one step."""

from datetime import UTC, datetime

import anyio
import pytest
from counting import STEP, CountingMemory, CountingSqlite, most_in_a_step
from scenes import Wall, opened

from supervisor import Approve, Context, NotEntitled, People, Person, agent, tool
from supervisor.core import events as e
from supervisor.core.ids import RULES
from supervisor.runtime.reading.pieces import PIECE

pytestmark = pytest.mark.anyio
AT = datetime(2026, 1, 1, tzinfo=UTC)
EVER = datetime.max.replace(tzinfo=UTC)
MANY = 5 * PIECE
FEW = 20
PEOPLE = People([Person(name="ana", roles=("approver", "operator")), Person(name="eve")])


@tool(secret=["token"])
async def deploy(target: str, token: str = "t") -> str:
    return target


@agent
async def waits(ctx: Context) -> None:
    await ctx.receive()
    await ctx.call(deploy, "x")
    await ctx.receive()


@agent
async def asks(ctx: Context) -> None:
    await ctx.call(deploy, "x")


async def ask_one(ctx):
    await ctx.run(asks)


@agent
async def parent(ctx: Context, count: int) -> None:
    async with ctx.task_group() as tasks:
        for _ in range(count):
            tasks.start_soon(ask_one)


@pytest.fixture(params=["memory", "sqlite"])
def store(request, tmp_path):
    found = CountingMemory() if request.param == "memory" else CountingSqlite(tmp_path / "state.db")
    found.wants_checkpoint = lambda: False  # that of a long log has a thread, for which virtual time does not wait
    return found


read_from = []
"""The store of the session that recalls."""


@agent
async def recalls(ctx: Context, text: str) -> tuple[list[str], int]:
    """Return what earlier turns have saved, and how many entries were read for it. The first turn is long."""
    for number in range(MANY if text == "one" else 0):
        await ctx.send(f"message {number}")
    await ctx.save(text)
    before = sum(read_from[-1].steps)
    saved = ctx.saved_before()
    return [*saved], sum(read_from[-1].steps) - before


async def grow(supervisor, session, event, count=MANY):
    """Append so many entries to a journal."""
    await supervisor._runner.journal.append(lambda view: [(session, event)] * count)
    await anyio.sleep(1)  # virtual: whoever listens has read them


async def asked_late(supervisor):
    """Start a session that asks after a long history. Return its approval, once a channel shows it."""
    await supervisor.start(waits, session="s", requester="ana")
    await grow(supervisor, "s", e.MessageSent(at=AT, text="before"))
    await supervisor.send("s", "go on", by="ana")
    with anyio.fail_after(60):
        while not (found := await supervisor.find_approvals()) or not found[0].shown:
            await anyio.sleep(0.1)
    return found[0]


async def refused(supervisor, approval):
    with pytest.raises(NotEntitled):
        await supervisor.decide(approval.id, Approve(by="eve"))


async def test_a_message_to_a_large_tree_reads_few_of_its_approvals(store):
    """The receipt has the oldest ones, each with the input of its sub-agent."""
    async with opened(store) as supervisor:
        await supervisor.start(parent, MANY, session="top")
        with anyio.fail_after(60):
            while (await supervisor.get_counts()).pending_approvals < MANY:
                await anyio.sleep(0.1)
        sent, most = await most_in_a_step(store, lambda: supervisor.send("top", "go on", by="ana"))
        read = sum(store.steps)
        assert list(sent.waiting_for) == list(await supervisor.find_approvals())
        assert (len(sent.waiting_for), most <= 2 * STEP < MANY) == (100, True)
        assert read <= 2 * len(sent.waiting_for) + FEW


async def test_a_refused_decision_reads_what_follows_the_question_in_pieces(store):
    """Whoever may not decide can cause it. A second refusal reads nothing."""
    async with opened(store, people=PEOPLE, channels=[Wall()]) as supervisor:
        approval = await asked_late(supervisor)
        await grow(supervisor, "s", e.MessageSent(at=AT, text="after"))
        _, most = await most_in_a_step(store, lambda: refused(supervisor, approval))
        assert most <= STEP < MANY
        assert MANY <= sum(store.steps) <= MANY + FEW, "not what is before the question"
        _, most = await most_in_a_step(store, lambda: refused(supervisor, approval))
        assert most <= FEW


async def test_a_refused_command_reads_no_earlier_refusals(store):
    """They are in memory. Also a refusal of another process is not journaled again."""
    async with opened(store, people=PEOPLE) as supervisor:
        await supervisor.start(waits, session="s", requester="ana")
        refusals = [
            e.CommandRefused(at=AT, act="cancel sessions", by=by, reason="no", session="s")
            for by in [*(str(number) for number in range(MANY)), "eve"]
        ]
        await supervisor._runner.journal.append(lambda view: [(RULES, refusal) for refusal in refusals])
        await anyio.sleep(1)

        async def cancel():
            with pytest.raises(NotEntitled):
                await supervisor.cancel("s", by="eve")

        _, most = await most_in_a_step(store, cancel)
        assert most <= FEW
        assert len(store.journal(RULES)) == MANY + 1


async def test_a_repeated_decision_about_secrets_reads_the_journal_in_pieces(store):
    """An unedited one reads no journal."""
    async with opened(store, channels=[Wall()]) as supervisor:
        approval = await asked_late(supervisor)
        await grow(supervisor, "s", e.MessageSent(at=AT, text="after"))
        edited = Approve(by="ana", arguments={"target": "y", "token": "[secret]"})
        assert (await supervisor.decide(approval.id, edited)).kind == "accepted"
        await anyio.sleep(1)
        again, most = await most_in_a_step(store, lambda: supervisor.decide(approval.id, edited))
        assert (again.kind, most <= STEP + FEW < MANY) == ("already", True)


async def test_a_turn_reads_only_the_states_of_earlier_turns(store):
    """And their beginnings, but no messages: each turn of a framework's agent asks for them."""
    read_from.append(store)
    async with opened(store) as supervisor:
        await (await supervisor.start(recalls, "one", session="s")).result()
        await supervisor.send("s", "two")
        saved, read = await (await supervisor.get_run("s")).result()
        assert (saved, read <= FEW) == (["one"], True)


async def test_a_chat_word_reads_what_follows_the_question(store):
    """Until the card is found. Of a channel that shows no card, nothing is read."""
    async with opened(store, channels=[Wall()]) as supervisor:
        await asked_late(supervisor)
        await grow(supervisor, "s", e.MessageSent(at=AT, text="after"), 10 * MANY)
        for channel, kind, most in [("elsewhere", "listed", FEW), ("wall", "decided", 2 * MANY + FEW)]:
            store.steps = [0]
            heard = await supervisor.chat("s", "yes", by="ana", shown_before=EVER, channel=channel)
            assert (heard.kind, sum(store.steps) <= most) == (kind, True)


async def test_a_watch_of_a_long_journal_reads_each_entry_once_and_in_pieces(store):
    """From its beginning to its end."""
    async with opened(store) as supervisor:
        run = await supervisor.start(waits, session="s")
        await grow(supervisor, "s", e.MessageSent(at=AT, text="said"))
        await run.cancel()

        async def watch():
            async with supervisor.watch_session("s") as entries:
                return [entry async for entry in entries]

        found, most = await most_in_a_step(store, watch)
        assert (most <= STEP < MANY, sum(store.steps) <= len(found) + FEW) == (True, True)
        assert found == list(await supervisor.find_entries("s", limit=None))


async def test_the_list_of_jobs_reads_the_entries_of_jobs_only(store):
    """Whatever else is in the store. Each job has its end."""
    job = {"command": "make", "host": "h", "process": 1, "process_started_at": None, "guard": 2}
    async with opened(store) as supervisor:
        run = await supervisor.start(waits, session="s")
        began = e.JobStarted(at=AT, job="j", operation="o#1", guard_started_at=None, log="", **job)
        await grow(supervisor, "s", began, 1)
        await grow(supervisor, "s", e.MessageSent(at=AT, text="said"))
        await grow(supervisor, "s", e.JobEnded(at=AT, job="j", how="exited", exit_code=0), 1)
        store.steps = [0]
        (found,) = await supervisor.find_jobs(running=False)
        assert (found.job, found.state, sum(store.steps)) == ("j", "exited", 2)
        await run.cancel()
