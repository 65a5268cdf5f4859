"""Reports: what an agent says of itself is in the journal, costs next to nothing, and decides nothing."""

from datetime import UTC, datetime

import anyio
import pytest
from msgspec.structs import replace
from scenes import ForkingStore, HeldStore, deploy, events, fork, names, opened
from watching import next_of

from supervisor import Approve, Context, InvalidInput, MemoryStore, agent, tool
from supervisor.core import events as e
from supervisor.core.sessions.reports import LONGEST_BYTES
from supervisor.runtime.operations.reports import FLUSH_AFTER_SECONDS, LARGEST_BYTES, MOST

pytestmark = pytest.mark.anyio
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@tool(policy="allow")
async def look(at: str) -> str:
    return at


class CountingStore(MemoryStore):
    commits = 0

    def commit(self) -> None:
        self.commits += 1
        super().commit()


def reports(store, session="s") -> list[e.Reported]:
    return events(store, session, e.Reported)


def said(store) -> list[tuple[str, str]]:
    return [(each.kind, each.text) for each in reports(store)]


@agent
async def telling(ctx: Context, given: list[list[str]]) -> str:
    """Reports (kind, text, and the id of a call), one after the other."""
    for kind, text, *call in given:
        await ctx.report(kind, text, call=call[0] if call else None, tool="sed" if kind in ("call", "result") else None)
    return "told"


async def tell(*given) -> MemoryStore:
    store = MemoryStore()
    async with opened(store) as supervisor:
        assert await (await supervisor.start(telling, [list(each) for each in given], session="s")).result() == "told"
    return store


async def test_each_report_is_an_entry_with_what_the_agent_said():
    @agent
    async def edits(ctx: Context) -> None:
        await ctx.report("thought", "it is the tide")
        await ctx.report("call", "tides.py", tool="edit", call="c1")
        await ctx.report("result", "no such file", tool="edit", call="c1", is_error=True)

    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(edits, session="s")).result()
    (thought, call, result) = (replace(each, at=reports(store)[0].at) for each in reports(store))
    assert thought == e.Reported(at=thought.at, kind="thought", text="it is the tide")
    assert call == e.Reported(at=thought.at, kind="call", text="tides.py", tool="edit", call="c1")
    assert result == replace(call, kind="result", text="no such file", is_error=True)


async def test_the_pieces_of_a_message_are_one_entry():
    """Of one kind and one message. A plan is whole, and so is a call without an id."""
    pieces = [
        ("text", "I "),
        ("text", "look"),
        ("thought", "hm"),
        ("text", "."),
        ("text", "Next", "m2"),
        ("text", "!", "m2"),
    ]
    assert said(await tell(*pieces)) == [("text", "I look"), ("thought", "hm"), ("text", "."), ("text", "Next!")]
    output = [("result", "a", "c1"), ("result", "b", "c1"), ("result", "c", "c2")]
    assert said(await tell(*output)) == [("result", "ab"), ("result", "c")]
    for whole in (["plan", "x"], ["plan", "x", "p"], ["call", "x"], ["result", "x"]):
        assert said(await tell(whole, whole)) == [(whole[0], "x")] * 2


@pytest.mark.parametrize("letter", ["a", "é", "語", "\U0001f30a"])
async def test_a_long_text_is_cut_visibly_and_a_long_message_is_not(letter):
    """64 KiB are the most of one entry: one report leaves out the rest, the pieces of a message begin another."""
    text = letter * (LONGEST_BYTES + 1)
    (cut,) = reports(await tell(("text", text)))
    assert 0 < cut.left_out == len(text.encode()) - len(cut.text.encode())
    assert text.startswith(cut.text)
    assert LONGEST_BYTES - 4 < len(cut.text.encode()) <= LONGEST_BYTES
    pieces = [letter * 1000] * 200
    told = reports(await tell(*(("text", piece) for piece in pieces)))
    assert "".join(each.text for each in told) == "".join(pieces)
    assert all(len(each.text.encode()) <= LONGEST_BYTES for each in told)
    assert len(told) <= len("".join(pieces).encode()) / (LONGEST_BYTES - 4000) + 1


@pytest.mark.parametrize("kind", ["text", "plan"])
async def test_ten_thousand_reports_cost_few_commits(kind):
    @agent
    async def talkative(ctx: Context) -> None:
        for n in range(10_000):
            await ctx.report(kind, f"{n} ")

    store = CountingStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(talkative, session="s")).result()
    assert "".join(each.text for each in reports(store)) == "".join(f"{n} " for n in range(10_000))
    assert store.commits < 100


async def test_reports_do_not_grow_the_state_of_a_session_in_memory():
    """Neither in the fold, nor in what is not written yet."""
    before = after = None

    @agent
    async def talkative(ctx: Context, supervisor_of: None = None) -> None:
        nonlocal before, after
        journal = opened_supervisor._runner.journal
        await ctx.call(look, "here")
        before = replace(journal.states["s"], length=0, latest=EPOCH)
        for n in range(3 * MOST + 10):
            await ctx.report("plan", str(n))
            assert journal.count_notes("s") < MOST
        for _ in range(40):
            await ctx.report("plan", "x" * LONGEST_BYTES)
            assert sum(len(each.text) for each in journal.notes.get("s", ())) <= LARGEST_BYTES
        after = replace(journal.states["s"], length=0, latest=EPOCH)

    async with opened() as opened_supervisor:
        await (await opened_supervisor.start(talkative, session="s")).result()
    assert before == after


async def test_a_report_is_on_disk_with_the_next_entry_and_before_it():
    store = MemoryStore()

    @agent
    async def tells_and_calls(ctx: Context) -> None:
        await ctx.report("text", "first")
        assert said(store) == []
        await ctx.call(look, "here")
        assert said(store) == [("text", "first")]
        await ctx.report("text", "second")

    async with opened(store) as supervisor:
        await (await supervisor.start(tells_and_calls, session="s")).result()
    told = [name for name in names(store, "s") if name == "Reported" or name.startswith("ToolCall")]
    assert told == ["Reported", "ToolCallRequested", "ToolCallStarted", "ToolCallFinished", "Reported"]


async def test_a_report_without_an_entry_after_it_is_written_after_a_while():
    """So people see it while the agent works on."""
    store = CountingStore()

    @agent
    async def works_long(ctx: Context) -> None:
        for _ in range(10):
            await ctx.report("text", ".")
            await anyio.sleep(FLUSH_AFTER_SECONDS / 20)
        assert reports(store) == []
        before = store.commits
        await anyio.sleep(FLUSH_AFTER_SECONDS)
        assert (said(store), store.commits) == ([("text", "." * 10)], before + 1)
        await anyio.sleep(10 * FLUSH_AFTER_SECONDS)
        assert store.commits == before + 1
        await ctx.report("text", "!")
        await anyio.sleep(2 * FLUSH_AFTER_SECONDS)
        assert said(store)[1:] == [("text", "!")]

    async with opened(store) as supervisor:
        run = await supervisor.start(works_long, session="s")
        async with supervisor.watch_session("s") as watch:
            seen = [row.event.text async for row in watch if isinstance(row.event, e.Reported)]
        await run.result()
    assert seen == ["." * 10, "!"]


async def looks(name: str) -> str:
    return name


@agent
async def narrating(ctx: Context, given: list[str]) -> list[str]:
    """Before and after each step it reports, more than is written at once."""
    found = []
    for name in given:
        for n in range(MOST):
            await ctx.report("plan", f"{name}{n}")
        found.append(await ctx.step(looks, name))
        await ctx.report("text", f"{name} done")
    return found


async def test_a_replay_reports_nothing_again():
    """Killed at any commit, it repeats at most the reports after its last step: all others are there once."""
    store = ForkingStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(narrating, ["a", "b", "c"], session="s")).result()
        everything = said(store)
    assert len(store.copies) > 6
    for copy, _ in store.copies[:-1]:
        kept = names(copy, "s")
        last = max((at for at, name in enumerate(kept) if name == "OperationFinished"), default=0)
        replayed = kept[:last].count("Reported")
        async with opened(copy) as supervisor:
            assert await (await supervisor.resume("s")).result() == ["a", "b", "c"]
        assert said(copy)[:replayed] == everything[:replayed]
        assert said(copy)[kept.count("Reported") :] == everything[replayed:]


@agent
async def racing(ctx: Context) -> list[str]:
    found = []

    async def one(inner: Context, name: str) -> None:
        for n in range(MOST):
            await inner.report("plan", f"{name}{n}")
            if n % 100 == 0:
                found.append(await inner.step(looks, f"{name}{n}"))

    async with ctx.task_group() as group:
        for name in "abc":
            group.start_soon(one, name)
    return found


async def test_reports_do_not_change_the_order_in_which_results_are_given():
    """R1: a task that waits until its reports are written overtakes no other one in a replay, or is overtaken."""
    store = ForkingStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(racing, session="s")).result()
    for copy, _ in store.copies[:-1]:
        known = [bytes(each.value).decode().strip('"') for each in events(copy, "s", e.OperationFinished)]
        async with opened(copy) as supervisor:
            assert (await (await supervisor.resume("s")).result())[: len(known)] == known


async def test_a_report_decides_nothing_about_crash_loops():
    """R5: an agent that reports and dies in each attempt is given up like one that only dies."""

    @agent
    async def reports_and_waits(ctx: Context) -> None:
        for n in range(MOST + 1):
            await ctx.report("plan", str(n))
        await anyio.sleep(1e6)

    store = MemoryStore()
    agent_of = reports_and_waits
    for attempt in range(3):
        async with opened(store) as supervisor:
            if not attempt:
                await supervisor.start(agent_of, session="s")
            else:
                await supervisor.resume("s")
            await anyio.sleep(10)
            store = fork(store)
            supervisor._runner.attempts.suspend_all("the test kills it")
    async with opened(store) as supervisor:
        outcome = await (await supervisor.resume("s")).outcome()
    assert outcome.kind == "abandoned"
    assert len(reports(store)) == 3 * (MOST + 1)


async def test_reports_while_another_process_writes_keep_their_order():
    """On disk they come after what the other process has written."""
    store = HeldStore()

    @agent
    async def listens(ctx: Context) -> str:
        await ctx.report("text", "before")
        heard = await ctx.receive()
        await ctx.report("text", "after")
        return heard

    async with opened(store) as supervisor:
        run = await supervisor.start(listens, session="s")
        await anyio.sleep(1)
        await supervisor.send("s", "hello")
        assert await run.result() == "hello"
    told = [name for name in names(store, "s") if name in ("Reported", "MessageReceived")]
    assert told == ["Reported", "MessageReceived", "Reported"]


async def test_a_run_reports_in_its_clean_up_and_not_after_its_end():
    """A stray task of a run that is over reports to nobody, and raises nothing."""
    late = anyio.Event()

    @agent
    async def stubborn(ctx: Context) -> None:
        try:
            await ctx.call(deploy, "a")
        finally:
            with anyio.CancelScope(shield=True):
                await ctx.report("text", "I clean up")
                group.start_soon(stray, ctx)

    async def stray(ctx: Context) -> None:
        await late.wait()
        await ctx.report("text", "too late")

    store = MemoryStore()
    async with opened(store) as supervisor, anyio.create_task_group() as group:
        run = await supervisor.start(stubborn, session="s")
        await next_of(run.watch_approvals())
        await run.cancel()
        await run.outcome()
        late.set()
    assert said(store) == [("text", "I clean up")]


async def test_a_waiting_run_that_was_passivated_has_its_reports_on_disk_once():
    @agent
    async def tells_and_asks(ctx: Context) -> str:
        await ctx.report("text", "I ask")
        return (await ctx.call(deploy, "a")).kind

    store = MemoryStore()
    async with opened(store, passivate_after=1) as supervisor:
        run = await supervisor.start(tells_and_asks, session="s")
        approval = await next_of(run.watch_approvals())
        await anyio.sleep(60)
        assert supervisor._runner.attempts.live == {}
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == "ok"
    assert said(store) == [("text", "I ask")]


async def test_reporting_is_progress():
    """W5: an agent that reports is not stalled."""

    @agent(inactivity_timeout=10)
    async def talks_on(ctx: Context) -> None:
        for _ in range(10):
            await anyio.sleep(8)
            await ctx.report("text", ".")

    async with opened() as supervisor:
        assert (await (await supervisor.start(talks_on)).outcome()).kind == "succeeded"


@pytest.mark.parametrize("wrong", [{"kind": "shout"}, {"text": 7}, {"tool": 7}, {"call": b"c"}])
async def test_a_report_of_another_kind_or_type_is_refused(wrong):
    @agent
    async def confused(ctx: Context) -> None:
        given = {"kind": "text", "text": "", **wrong}
        await ctx.report(given.pop("kind"), given.pop("text"), **given)

    store = MemoryStore()
    async with opened(store) as supervisor:
        outcome = await (await supervisor.start(confused, session="s")).outcome()
    assert outcome.kind == "failed"
    assert InvalidInput.__name__ in outcome.cause
    assert reports(store) == []


async def test_text_that_utf8_cannot_hold_is_written_escaped():
    """And it fails no other entry of the commit."""

    @agent
    async def garbles(ctx: Context) -> None:
        await ctx.report("text", "a \ud800 b")
        await ctx.report("call", "x", call="\udfff" * 1000)

    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(garbles, session="s")).result()
    assert said(store)[0] == ("text", r"a \ud800 b")
    assert len(reports(store)[1].call) <= 256
