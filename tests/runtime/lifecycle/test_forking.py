"""Forks: a new tree begins with a copy of another one, as it was before an entry (R10)."""

from datetime import timedelta

import anyio
import pytest
from scenes import ForkingStore, deploy, effects, events, fork, opened, replayed
from watching import next_of

from supervisor import (
    Answer,
    Approve,
    Context,
    Deny,
    InvalidInput,
    MemoryStore,
    NotEntitled,
    NotFound,
    People,
    Person,
    SessionConflict,
    ToolCall,
    UnknownAgent,
    agent,
    ask,
    tool,
)
from supervisor.core import events as e
from supervisor.core.events.asking import is_copied
from supervisor.core.text.masks import MASK
from supervisor.wiring.checking import check_replay

pytestmark = pytest.mark.anyio


@tool(policy="allow")
async def effect(name: str) -> str:
    effects.append(name)
    return name


@tool(secret=("key",))
async def login(key: str) -> str:
    effects.append("login")
    return "in"


async def work(name: str) -> str:
    effects.append(f"step {name}")
    return name


@agent
async def release(ctx: Context, target: str) -> list[str]:
    first = await ctx.step(work, "build")
    asked = await ctx.call(deploy, target)
    return [first, asked.kind, (await ctx.call(effect, "after")).content]


def entry_of(store, session: str, kind, nth: int = 0) -> int:
    """Return the number of the nth entry of a kind."""
    return [n for n, row in enumerate(store.journal(session), start=1) if isinstance(row.event, kind)][nth]


async def follows(store, root: str, *specs) -> bool:
    """Return whether the agents' code follows the copied journal of a fork."""
    rows = [row for view in store.find_sessions(root=root) for row in store.journal(view.id)]
    found = await check_replay(sorted(rows, key=lambda row: row.position), {spec.name: spec for spec in specs})
    return {each.kind for each in found} <= {"follows"}


async def left_decided(spec=release, decision=None, given=("prod",)) -> MemoryStore:
    """Run an agent to its end, and decide its one approval. Return the store."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(spec, *given, session="s", requester="rita")
        await supervisor.decide((await next_of(run.watch_approvals())).id, decision or Approve(by="ana"))
        await run.outcome()
    return store


@pytest.mark.parametrize("before", ["ApprovalDecided", "ToolCallStarted", "ToolCallFinished"])
async def test_an_open_call_is_asked_anew_and_its_old_decision_does_not_count(before):
    """A call that was asked, approved or executing is asked again with a new id. A finished call is not done again. The
    source is unchanged, except for the entry that names the fork."""
    store = await left_decided()
    old = list(store.journal("s"))
    (asked,) = [event.approval for event in events(store, "s", e.ToolCallRequested) if event.approval]
    effects.clear()
    async with opened(store) as supervisor:
        made = await supervisor.fork("s", before=entry_of(store, "s", getattr(e, before)), new="f", by="olga")
        again = await next_of(supervisor.watch_approvals())
        assert (again.session, again.requester, again.id == asked) == ("f", "rita", False)
        assert await follows(store, "f", release)
        await supervisor.decide(again.id, Deny(by="ana"))
        assert (await (await supervisor.get_run("f")).outcome()).value == ["build", "denied", "after"]
        assert effects == ["after"]
        assert [approval.session for approval in await supervisor.find_approvals(pending=False)] == ["s", "f"]
    (noted,) = store.journal("s")[len(old) :]
    assert (store.journal("s")[: len(old)], noted.event.fork, noted.event.by) == (old, "f", "olga")
    (forked,) = events(store, "f", e.SessionForked)
    assert (forked.source, forked.before, forked.by) == ("s", made.before, "olga")
    assert [(call.tool, call.session) for call in made.later_calls] == [("deploy", "s"), ("effect", "s")]


async def test_a_finished_call_keeps_its_result_and_its_copied_decision_is_only_shown():
    """The transcript says who approved it in the source. No list, audit trail or decision knows that copy."""
    store = await left_decided()
    effects.clear()
    async with opened(store) as supervisor:
        audited = len(await supervisor.find_audit())
        made = await supervisor.fork("s", before=entry_of(store, "s", e.RunFinished), new="f")
        assert (await (await supervisor.get_run("f")).outcome()).value == ["build", "ok", "after"]
        assert (effects, made.later_calls) == ([], ())
        assert [approval.session for approval in await supervisor.find_approvals(pending=False)] == ["s"]
        told = [message for message in await supervisor.get_transcript("f") if message.kind == "approval"]
        assert [(message.by, is_copied(message.approval)) for message in told] == [("ana", True)]
        assert (await supervisor.decide(told[0].approval, Approve(by="eve"))).kind == "unknown"
        again = await supervisor.fork("f", before=made.before, new="g")
        assert (await (await supervisor.get_run("g")).outcome()).value == ["build", "ok", "after"]
        last, most = (await supervisor.find_audit(limit=audited)).next, audited + 5
        for rows in (await supervisor.find_audit(after=last, limit=most), (await supervisor.find_audit())[audited:]):
            assert [(type(row.event), row.event.fork) for row in rows] == [(e.ForkTaken, "f"), (e.ForkTaken, "g")]
        assert again.later_calls == ()


@agent
async def asking(ctx: Context) -> str:
    answer = await ctx.ask("Which?", choices=["a", "b"])
    await ctx.call(deploy, answer)
    return str(answer)


async def test_a_question_that_was_answered_keeps_its_answer_and_an_open_one_is_asked_anew():
    """The question is open until the agent was given its answer. After that the answer is a result."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(asking, session="s")
        async with run.watch_approvals() as stream:
            await supervisor.decide((await anext(stream)).id, Answer(value="b", by="ana"))
            asked = await anext(stream)
            finished = entry_of(store, "s", e.OperationFinished)
            await supervisor.fork("s", before=finished, new="open")
            await supervisor.fork("s", before=finished + 1, new="answered")
            await anyio.sleep(1)
            waiting = {each.session: each for each in await supervisor.find_approvals()}
            assert waiting["s"].id == asked.id
            assert (waiting["open"].kind, waiting["answered"].arguments) == ("question", {"target": "b"})
            for name in ("s", "open", "answered"):
                await supervisor.cancel(name)


@agent
async def helper(ctx: Context, name: str) -> str:
    done = await ctx.step(work, name)
    if name != "quick":
        await ctx.call(deploy, name)
    return done


@agent
async def parent(ctx: Context) -> list[str]:
    quick, slow = await ctx.spawn(helper, "quick"), await ctx.spawn(helper, "slow")
    first = (await quick.outcome()).value
    asked = await ctx.call(deploy, "parent")
    return [first, asked.content, (await slow.outcome()).value]


async def test_sub_agents_are_copied_with_new_ids():
    """A finished sub-agent keeps its outcome and does nothing again. An open one goes on, and asks anew."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(parent, session="s")
        await anyio.sleep(1)
        asked = await supervisor.find_approvals()
        for approval in sorted(asked, key=lambda approval: approval.session != "s"):
            await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == ["quick", "parent", "slow"]
        effects.clear()
        (quick, slow) = [view.id for view in await supervisor.find_sessions(root="s") if view.parent == "s"]
        made = await supervisor.fork("s", before=entry_of(store, "s", e.ApprovalDecided), new="f")
        found = await next_of(supervisor.watch_approvals()), await next_of(supervisor.watch_approvals())
        copies = [view.id for view in await supervisor.find_sessions(root="f") if view.parent == "f"]
        assert {each.session for each in found} <= {"f", copies[1]}
        assert not {quick, slow} & {*copies}
        assert await follows(store, "f", parent, helper)
        for approval in await supervisor.find_approvals(session="f"):
            await supervisor.decide(approval.id, Approve(by="ana"))
        assert (await (await supervisor.get_run("f")).outcome()).value == ["quick", "parent", "slow"]
        assert sorted(effects) == ["parent", "slow"]
        assert events(store, copies[0], e.SessionForked)[0].source == quick
        assert len(made.later_calls) == 2


async def test_a_fork_before_an_entry_of_a_sub_agent_copies_the_whole_tree():
    """The fork contains the root as it was then. Before the sub-agent's first entry the sub-agent does not exist."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(parent, session="s")
        await anyio.sleep(1)
        slow = (await supervisor.find_sessions(root="s"))[-1].id
        made = await supervisor.fork(slow, before=entry_of(store, slow, e.ToolCallRequested))
        assert (made.source, len(await supervisor.find_sessions(root=made.session))) == ("s", 3)
        bare = await supervisor.fork(slow, before=1)
        assert len(events(store, bare.session, e.OperationFinished)) >= 1
        assert replayed(store, bare.session).forked.before == entry_of(store, "s", e.OperationFinished, 1)
        for root in ("s", made.session, bare.session):
            await supervisor.cancel(root)


@agent(tools=[helper])
async def modelled(ctx: Context) -> str:
    return (await ctx.call(ToolCall("1", "helper", {"name": "deep"}))).content


@pytest.mark.parametrize("is_decided", [False, True])
async def test_a_sub_agent_that_a_call_began_goes_on_unless_the_call_was_approved(is_decided):
    """Without an approval, the sub-agent's step is not done again. With one, the decision counts in the source only,
    and the sub-agent begins anew after a new decision."""
    store = MemoryStore()
    async with opened(store, rules=[ask("helper")] if is_decided else []) as supervisor:
        run = await supervisor.start(modelled, session="s")
        async with run.watch_approvals() as stream:
            if is_decided:
                await supervisor.decide((await anext(stream)).id, Approve(by="ana"))
            below = (await anext(stream)).session
            made = await supervisor.fork(below, before=entry_of(store, below, e.ToolCallRequested), new="f")
            while (view := await supervisor.get_session("f")).outcome is None:
                for approval in view.pending_approvals:
                    await supervisor.decide(approval.id, Approve(by="ana"))
                await anyio.sleep(1)
            assert (await (await supervisor.get_run("f")).outcome()).value == "deep"
            assert effects.count("step deep") == 1 + is_decided
            assert made.later_calls == ()
            await supervisor.cancel("s")


@agent
async def sleeper(ctx: Context) -> str:
    if ctx.saved is None:
        await ctx.save("half")
    marked = await ctx.patched("new path")
    await ctx.sleep(100)
    await ctx.call(deploy, "late")
    return f"{ctx.saved} {marked} {await ctx.receive()}"


async def test_state_marks_messages_and_the_instants_of_timers_are_copied():
    """A timer is due at the same instant as in the source, even in a late fork."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(sleeper, session="s")
        await supervisor.send("s", "hello", by="ana")
        await anyio.sleep(60)
        length = len(store.journal("s"))
        await supervisor.cancel("s")
        await supervisor.fork("s", before=length + 1, new="f")
        asked = await next_of(supervisor.watch_approvals())
        (timer,) = events(store, "f", e.OperationStarted)
        assert asked.created_at - timer.due_at < timedelta(seconds=1)
        assert timer == events(store, "s", e.OperationStarted)[0]
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert (await (await supervisor.get_run("f")).outcome()).value == "half True hello"


async def old_path(ctx: Context) -> str:
    await ctx.call(deploy, "x")
    return f"old {ctx.version}"


@agent(version="2", versions={"1": old_path})
async def versioned(ctx: Context) -> str:
    await ctx.call(deploy, "x")
    return f"new {ctx.version}"


@pytest.mark.parametrize(("version", "result"), [(None, "new 2"), ("1", "old 1")])
async def test_a_fork_has_the_current_version_unless_another_is_named(version, result):
    """The source's version does not matter. A version that the agent does not have is refused, and nothing is
    written."""
    store = MemoryStore()
    async with opened(store, unattended="allow") as supervisor:
        await (await supervisor.start(versioned, session="s")).outcome()
        place = entry_of(store, "s", e.ToolCallRequested)
        first = await supervisor.fork("s", before=place, version=version)
        assert (await (await supervisor.get_run(first.session)).outcome()).value == result
        again = await supervisor.fork(first.session, before=entry_of(store, first.session, e.ToolCallRequested))
        assert (await (await supervisor.get_run(again.session)).outcome()).value == "new 2"
        position = store.last_position()
        with pytest.raises(UnknownAgent):
            await supervisor.fork("s", before=place, version="3")
        assert store.last_position() == position


async def test_a_fork_of_a_fork_is_one():
    """Its journal names both sources; approvals of the first stay copies."""
    store = await left_decided()
    effects.clear()
    async with opened(store) as supervisor:
        await supervisor.fork("s", before=entry_of(store, "s", e.RunFinished), new="f")
        await (await supervisor.get_run("f")).outcome()
        await supervisor.fork("f", before=entry_of(store, "f", e.RunFinished), new="g")
        assert (await (await supervisor.get_run("g")).outcome()).value == ["build", "ok", "after"]
    assert [event.source for event in events(store, "g", e.SessionForked)] == ["s", "f"]
    assert effects == []
    assert all(event.approval.count(":") == 1 for event in events(store, "g", e.ApprovalDecided))


@agent
async def turns(ctx: Context, text: str) -> str:
    return (await ctx.call(effect, text)).content


async def test_an_idle_tree_is_forked_and_a_message_continues_it():
    """A fork before the second turn has only the first one. Another message begins another second turn."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(turns, "one", session="s")).outcome()
        await supervisor.send("s", "two")
        await (await supervisor.get_run("s")).outcome()
        await supervisor.fork("s", before=entry_of(store, "s", e.RunStarted, 1), new="f")
        assert (await supervisor.get_session("f")).outcome["value"] == "one"
        await supervisor.send("f", "other")
        assert (await (await supervisor.get_run("f")).outcome()).value == "other"
        said = [message.text for message in await supervisor.get_transcript("f") if message.kind == "received"]
        assert said == ["one", "other"]
    assert effects == ["one", "two", "other"]


@agent
async def secretive(ctx: Context) -> str:
    return (await ctx.call(login, "hunter2")).content


async def test_later_calls_are_listed_without_secrets_and_a_fork_keeps_secrets_masked():
    """Secret arguments of the listed calls are masked, and so are those in the copy of a finished call."""
    store = await left_decided(secretive, given=())
    async with opened(store) as supervisor:
        made = await supervisor.fork("s", before=entry_of(store, "s", e.ToolCallStarted), new="f")
        assert [call.arguments for call in made.later_calls] == [{"key": MASK}]
        whole = await supervisor.fork("s", before=entry_of(store, "s", e.RunFinished))
        await (await supervisor.get_run(whole.session)).outcome()
        assert not [
            row for row in await supervisor.find_entries(whole.session) if b"hunter2" in e.encode_event(row.event)
        ]
        await supervisor.cancel("f")


async def broken() -> None:
    raise ConnectionError


@agent(restart="transient", restart_delay=1000.0, max_restart_delay=1000.0, max_restarts=1, restart_period=9000.0)
async def restarting(ctx: Context) -> None:
    await ctx.step(broken)


async def test_a_fork_in_a_back_off_begins_at_once():
    """The delay belongs to the run that failed. A person has asked for the fork."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(restarting, session="s")
        await anyio.sleep(1)
        await supervisor.send("s", "go on")
        await supervisor.fork("s", before=entry_of(store, "s", e.MessageReceived), new="f")
        with anyio.fail_after(10):
            assert (await (await supervisor.get_run("f")).outcome()).kind == "failed"
        await supervisor.cancel("s")


async def test_only_operators_fork():
    """As for rules; a refused fork writes that it was refused (A15), and nothing else."""
    store = await left_decided()
    people = People([Person(name="olga", roles=("operator",)), Person(name="cleo")])
    async with opened(store, people=people) as supervisor:
        position = store.last_position()
        with pytest.raises(NotEntitled):
            await supervisor.fork("s", before=5, by="cleo")
        assert [type(row.event) for row in store.rows(position)] == [e.CommandRefused]
        await supervisor.fork("s", before=entry_of(store, "s", e.RunFinished), by="olga")


async def test_an_impossible_fork_is_refused_in_one_line():
    """The entry does not exist, is the first one, or a session is missing or exists already. Nothing is written."""
    store = await left_decided()
    async with opened(store) as supervisor:
        position, length = store.last_position(), len(store.journal("s"))
        for entry in (-1, 0, length + 1, 1, 2):
            with pytest.raises(InvalidInput):
                await supervisor.fork("s", before=entry)
        with pytest.raises(NotFound):
            await supervisor.fork("nobody", before=3)
        with pytest.raises(SessionConflict):
            await supervisor.fork("s", before=3, new="s")
        with pytest.raises(InvalidInput):
            await supervisor.fork("s", before=3, new="No Id")
        assert store.last_position() == position


async def test_a_fork_exists_completely_or_not_at_all():
    """SIGKILL after every commit of a fork and later: the next process finds no fork, or brings it to its end."""
    store = ForkingStore(lambda: list(effects))
    async with opened(store, unattended="allow") as supervisor:
        assert await (await supervisor.start(parent, session="s")).result() == ["quick", "parent", "slow"]
        before = len(store.copies)
        await supervisor.fork("s", before=entry_of(store, "s", e.ToolCallRequested), new="f")
        await (await supervisor.get_run("f")).outcome()
    for copy, done in store.copies[before:]:
        effects[:] = done
        async with opened(copy, unattended="allow") as supervisor:
            await supervisor.resume_all()
            assert (await (await supervisor.get_run("f")).outcome()).kind == "succeeded"
        assert max(effects.count("parent"), effects.count("slow")) <= 2
    copy = fork(store.copies[before - 1][0])
    assert (copy.get_session("f"), events(copy, "s", e.ForkTaken)) == (None, [])
