"""A run that today's code cannot follow is blocked: left untouched, named, and continued by code that follows (R1)."""

import sys

import anyio
import pytest
from scenes import HeldStore, deploy, effects, events, fork, names, opened

from supervisor import Approve, Context, Deny, MemoryStore, RunBlocked, ToolCall, agent, tool
from supervisor.channels import Channel
from supervisor.core import events as e
from supervisor.core.approvals.facts import facts_of
from supervisor.core.telling import how_it_is
from supervisor.runtime.lifecycle.claim import SILENT
from supervisor.runtime.lifecycle.launch import LOOK_AGAIN_SECONDS
from supervisor.seam.store import StoreAway

pytestmark = pytest.mark.anyio
HERE = sys.modules[__name__]
DAY = 86_400.0


@tool(policy="allow", idempotent=True)
async def effect(name: str) -> str:
    effects.append(name)
    return name


async def double(number: int) -> int:
    return number * 2


async def left_waiting(spec, *given, asks=1, **options) -> MemoryStore:
    """Start an agent, and kill the program when it waits for people. Return the store."""
    store = MemoryStore()
    async with opened(store, **options) as supervisor:
        await supervisor.start(spec, *given, session="s")
        while len(await supervisor.find_approvals()) < asks:
            await anyio.sleep(0.01)
        await anyio.sleep(0.01)
        killed = fork(store)
        await supervisor.cancel("s")  # this process would run as long as there are timers
        return killed


async def blocked(store, session="s", **options):
    """Resume, and return why the session is blocked."""
    async with opened(store, **options) as supervisor:
        await supervisor.find_approvals()  # a reader: so no call is denied for lack of one
        run = await supervisor.resume("s")
        with pytest.raises(RunBlocked) as caught:
            await run.outcome()
        assert caught.value.session == session
        assert (await supervisor.get_session("s")).status == "blocked"
        return caught.value.block


async def finished(store):
    """Resume with code that follows, approve everything, and return the result."""
    async with opened(store, unattended="allow") as supervisor:
        run = await supervisor.resume("s")
        return await run.result()


async def original(ctx: Context) -> str:
    number = await ctx.step(double, 4)
    result = await ctx.call(deploy, f"prod {number}")
    return f"{result.content} {(await ctx.call(effect, 'after')).content}"


# -- edits -----------------------------------------------------------------------------------------------------------


async def inserted(ctx: Context) -> str:
    await ctx.call(effect, "inserted")
    return await original(ctx)


async def deleted(ctx: Context) -> str:
    return (await ctx.call(deploy, "prod 8")).content


async def reordered(ctx: Context) -> str:
    content = (await ctx.call(deploy, "prod 8")).content
    return f"{content} {await ctx.step(double, 4)}"


async def other_arguments(ctx: Context) -> str:
    number = await ctx.step(double, 4)
    return (await ctx.call(deploy, f"staging {number}")).content


async def returns(ctx: Context) -> str:
    return "early"


async def raises(ctx: Context) -> str:
    await ctx.step(double, 4)
    raise LookupError("gone")


async def hangs(ctx: Context) -> str:
    await ctx.step(double, 4)
    await anyio.sleep_forever()
    return ""


async def raises_after(ctx: Context) -> str:
    await original(ctx)
    raise LookupError("after")


async def raises_beside(ctx: Context) -> str:
    async def fail() -> None:
        raise LookupError("beside")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(original, ctx)
        await anyio.sleep(1)
        tasks.start_soon(fail)
    return ""


EDITS = [inserted, deleted, reordered, other_arguments, returns, raises, hangs]


@pytest.mark.parametrize("edit", EDITS)
@pytest.mark.parametrize("is_approved", [True, False], ids=["approved", "pending"])
async def test_an_edit_blocks_the_run_and_the_old_code_finishes_it(deployed, edit, is_approved):
    """Nothing runs after the first difference. The approval keeps its id and its decision. Each effect happens once."""
    store = await left_waiting(deployed(original))
    (asked,) = [event.approval for event in events(store, "s", e.ToolCallRequested)]
    deployed(edit)
    if is_approved:
        async with opened(store) as supervisor:
            await supervisor.decide(asked, Approve(by="ana"))
    block = await blocked(store)
    assert block.why == "path"
    assert (block.held, block.entry) == (("step double", 4) if edit is returns else (block.held, block.entry))
    assert effects == []
    deployed(original)
    assert await finished(store) == "prod 8 after"
    assert effects == ["prod 8", "after"]
    assert [event.approval for event in events(store, "s", e.ToolCallRequested) if event.approval] == [asked]
    assert "RunUnblocked" in names(store, "s") or names(store, "s").count("RunBlocked") == 1


async def test_a_block_of_a_retry_names_the_entry_of_the_run_before_it(deployed):
    """A retry replays operations that the failed run began. The block finds their entries in that earlier run."""
    store = MemoryStore()
    async with opened(store, unattended="allow") as supervisor:
        assert (await (await supervisor.start(deployed(raises_after), session="s")).outcome()).kind == "failed"
        deployed(inserted)
        with pytest.raises(RunBlocked) as caught:
            await (await supervisor.retry("s")).outcome()
    block = caught.value.block
    assert (block.held, block.entry, block.held_at) == ("step double", 4, store.journal("s")[3].event.at)


async def test_a_block_names_the_entry_the_other_operation_and_the_lines(deployed):
    """It gives the number of the oldest entry not asked for, what the code asked for, the innermost line and the
    agent's."""
    store = await left_waiting(deployed(original))
    deployed(other_arguments)
    block = await blocked(store)
    journal = store.journal("s")
    assert isinstance(journal[block.entry - 1].event, e.ToolCallRequested)
    assert block.held_at == journal[block.entry - 1].event.at
    assert '"prod 8"' in block.held
    assert '"staging 8"' in block.cause
    assert block.where == block.in_agent
    assert block.where.startswith(f"{__file__}:")
    assert block.where.endswith("in other_arguments")


@pytest.mark.parametrize("read", ["get_session", "find_approvals"])
async def test_a_block_is_told_where_the_store_is_away_just_after_its_commit(deployed, read):
    """R1: who waits for the run is told all the same, and its cards are renewed later."""

    class Away(MemoryStore):
        is_away = False

        def write(self, rows):
            self.has_block = any(isinstance(row.event, e.RunBlocked) for row in rows)
            super().write(rows)

        def commit(self):
            super().commit()
            self.is_away = self.has_block

        def get_session(self, session):
            self.reach("get_session")
            return super().get_session(session)

        def find_approvals(self, **which):
            self.reach("find_approvals")
            return super().find_approvals(**which)

        def reach(self, name):
            if self.is_away and name == read:
                self.is_away = False
                raise StoreAway("it does not answer")

    store = Away()
    vars(store).update(vars(await left_waiting(deployed(original))))
    deployed(other_arguments)
    assert '"staging 8"' in (await blocked(store, channels=[Wall()])).cause


async def test_no_effect_begins_before_the_whole_journal_was_asked_for(deployed):
    """An approved call in one branch waits for another branch, which never asks for its journaled operation."""

    async def beside(ctx: Context) -> None:
        async with ctx.task_group() as tasks:
            tasks.start_soon(lambda branch: branch.call(deploy, "left"))
            tasks.start_soon(lambda branch: branch.call(deploy, "right"))

    async def one_is_gone(ctx: Context) -> None:
        async with ctx.task_group() as tasks:
            tasks.start_soon(lambda branch: branch.call(deploy, "left"))
            tasks.start_soon(lambda branch: anyio.sleep_forever())

    store = await left_waiting(deployed(beside), asks=2)
    deployed(one_is_gone)
    async with opened(store) as supervisor:
        for approval in await supervisor.find_approvals():
            await supervisor.decide(approval.id, Approve(by="ana"))
    assert '"right"' in (await blocked(store)).held
    assert effects == []
    deployed(beside)
    await finished(store)
    assert sorted(effects) == ["left", "right"]


async def test_a_call_that_changed_code_cancels_is_not_abandoned(deployed):
    """A branch that raises cancels the call of another branch. The run is blocked, and the call's approval stays."""

    async def calls_and_steps(ctx: Context) -> None:
        async with ctx.task_group() as tasks:
            tasks.start_soon(lambda branch: branch.call(deploy, "left"))
            tasks.start_soon(lambda branch: branch.call(deploy, "right"))

    async def raises_instead(ctx: Context) -> None:
        async def fail(branch: Context) -> None:
            raise LookupError

        async with ctx.task_group() as tasks:
            tasks.start_soon(lambda branch: branch.call(deploy, "left"))
            tasks.start_soon(fail)

    store = await left_waiting(deployed(calls_and_steps), asks=2)
    deployed(raises_instead)
    await blocked(store)
    assert "OperationAbandoned" not in names(store, "s")
    assert "ApprovalWithdrawn" not in names(store, "s")
    deployed(calls_and_steps)
    await finished(store)
    assert sorted(effects) == ["left", "right"]


# -- values, calls, agents -------------------------------------------------------------------------------------------


async def halves(number: int) -> float:
    return number / 2


async def takes_a_number(ctx: Context, number: int) -> str:
    half = await ctx.step(halves, number)
    return (await ctx.call(deploy, f"{half}")).content


async def takes_a_list(ctx: Context, number: list[int]) -> str:
    return ""


@pytest.mark.parametrize("what", ["input", "step"])
async def test_a_value_that_does_not_fit_the_type_blocks(deployed, what, monkeypatch):
    """The value is a run's input or a step's result. The block says so, and code with the old types goes on."""
    store = await left_waiting(deployed(takes_a_number), 5)
    if what == "input":
        deployed(takes_a_list)
    else:

        async def retyped(number: int) -> list[str]:
            return []

        retyped.__module__, retyped.__qualname__ = halves.__module__, halves.__qualname__
        monkeypatch.setattr(HERE, "halves", retyped)
    block = await blocked(store)
    assert block.why == "value"
    assert {"input": "input", "step": "halves"}[what] in block.cause
    deployed(takes_a_number)
    monkeypatch.setattr(HERE, "halves", halves_as_it_was)
    assert await finished(store) == "2.5"


halves_as_it_was = halves


async def emits(ctx: Context) -> str:
    return (await ctx.call(ToolCall("1", "deploy", {"target": "x"}))).kind


async def test_an_open_call_whose_tool_is_gone_blocks(deployed):
    """A person approved a model's call, and today's agent has no such tool. The approval stays unused."""
    store = await left_waiting(deployed(emits, tools=[deploy]))
    deployed(emits, tools=[effect])
    async with opened(store) as supervisor:
        (asked,) = await supervisor.find_approvals()
        assert (await supervisor.decide(asked.id, Approve(by="ana"))).kind == "accepted"
    assert (await blocked(store)).why == "call"
    deployed(emits, tools=[deploy])
    assert await finished(store) == "ok"
    assert effects == ["x"]


async def test_an_agent_that_cannot_be_loaded_blocks_and_is_tried_again(deployed):
    """A minute after the agent is back, the run goes on by itself, in the same process."""
    store = await left_waiting(deployed(original))
    deployed(None)
    async with opened(store) as supervisor:
        run = await supervisor.resume("s")
        await anyio.sleep(1)
        assert (await supervisor.get_session("s")).blocked.why == "agent"
        with pytest.raises(RunBlocked):
            await run.result()
        deployed(original)
        await anyio.sleep(LOOK_AGAIN_SECONDS + 1)
        assert (await supervisor.get_session("s")).status == "waiting_approval"
        (asked,) = await supervisor.find_approvals()
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await run.result() == "prod 8 after"


# -- people go on ------------------------------------------------------------------------------------------------------


async def test_people_decide_send_and_cancel_while_a_run_is_blocked(deployed):
    """A denial counts, a message is kept, and neither wakes the run. A cancel ends it at once, without its code."""
    store = await left_waiting(deployed(original))
    deployed(returns)
    async with opened(store) as supervisor:
        run = await supervisor.resume("s")
        with pytest.raises(RunBlocked):
            await run.outcome()
        attempts = names(store, "s").count("AttemptStarted")
        (asked,) = await supervisor.find_approvals()
        assert (await supervisor.decide(asked.id, Deny(by="ana"))).kind == "accepted"
        assert (await supervisor.send("s", "hello", by="ana")).kind == "kept"
        await anyio.sleep(DAY)
        assert names(store, "s").count("AttemptStarted") == attempts
        await run.cancel("enough")
        assert (await run.outcome()).kind == "cancelled"
    assert effects == []


async def test_lists_trees_and_pages_show_a_blocked_run(deployed):
    """`top`, the list of sessions and the pages show it: with the reason at the session, without it at those above."""
    deployed(original, name="child")
    store = await left_waiting(gives_up)
    deployed(returns, name="child")
    async with opened(store) as supervisor:
        await supervisor.resume("s")
        await anyio.sleep(1)
        async with supervisor.watch_activity() as activities:
            seen = await activities.look(wholly=True)
        doing = {each.agent: [one.kind for one in each.doing] for each in seen}
        assert "blocked" in doing["child"]
        said = {view.agent: how_it_is(view, view.created_at)[1] for view in await supervisor.find_sessions()}
        assert said["child"].startswith("blocked: the agent returned")
        assert said["gives_up"].startswith("blocked")
        assert {how_it_is(view, view.created_at)[0] for view in await supervisor.find_sessions()} == {"error"}
        await supervisor.cancel("s")


async def test_an_approval_of_a_blocked_run_expires_at_its_instant(deployed):
    """No decision counts from that instant on, and code that follows gets the expiry."""
    store = await left_waiting(deployed(original, approval_expires_in=3600))
    deployed(returns, approval_expires_in=3600)
    async with opened(store) as supervisor:
        (asked,) = await supervisor.find_approvals()
        await supervisor.resume("s")
        await anyio.sleep(2 * 3600)
        assert (await supervisor.decide(asked.id, Approve(by="ana"))).kind == "closed"
    deployed(original, approval_expires_in=3600)
    assert "expired" in await finished(store)
    assert effects == ["after"]


@agent
async def gives_up(ctx: Context) -> str:
    run = await ctx.spawn(HERE.worker)
    async with ctx.move_on_after(3600) as timer:
        await run.result()
    await run.cancel("too long")
    return f"{timer.expired} {(await run.outcome()).kind}"


async def test_a_parent_may_cancel_a_blocked_child(deployed):
    """The parent waits as for any open child, then cancels it. The child ends without its code, and the parent goes
    on."""
    deployed(original, name="child")
    store = await left_waiting(gives_up)
    deployed(returns, name="child")
    async with opened(store) as supervisor:
        await supervisor.resume("s")
        await anyio.sleep(60)
        assert (await supervisor.get_session("s")).status == "blocked"
        await anyio.sleep(3600)
        assert (await (await supervisor.get_run("s")).outcome()).value == "True cancelled"
    assert effects == []


async def test_a_model_call_with_an_operation_that_waits_for_the_replay_is_not_at_work(deployed):
    """A model call has half an hour for its first token. An operation inside it that the journal does not hold has
    not."""

    def calls(target):
        async def body(ctx: Context) -> str:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.sleep, 1)
                async with ctx.model_call():
                    return (await ctx.call(deploy, target)).content

        return body

    store = await left_waiting(deployed(calls("a")))
    deployed(calls("b"))
    async with opened(store) as supervisor:
        await supervisor.find_approvals()
        await supervisor.resume("s")
        await anyio.sleep(10)
        assert (await supervisor.get_session("s")).status == "blocked"
        await supervisor.cancel("s")


class Wall(Channel):
    """A channel that keeps the newest cards in a list."""

    name = "wall"

    def __init__(self) -> None:
        self.cards: dict[str, bool] = {}

    async def serve(self, supervisor) -> None:
        await anyio.sleep_forever()

    async def post(self, approval, card=None) -> str:
        self.cards[approval.id] = approval.blocked
        return approval.id

    async def retire(self, approval, card) -> None:
        del self.cards[approval.id]


async def test_the_card_shows_that_its_session_is_blocked_and_unblocked(deployed):
    """R1: every surface shows it, and so does the result of a decision."""
    store, wall = await left_waiting(deployed(original)), Wall()
    deployed(returns)
    async with opened(store, channels=[wall]) as supervisor:
        await supervisor.resume("s")
        await anyio.sleep(1)
        assert [*wall.cards.values()] == [True]
        (asked,) = await supervisor.find_approvals()
        assert asked.blocked
        assert (await supervisor.get_approval(asked.id)).blocked
        assert "blocked" in [fact.name for fact in facts_of(asked, asked.created_at) if fact.kind == "ours"]
    async with opened(fork(store)) as supervisor:
        assert (await supervisor.decide(asked.id, Approve(by="ana"))).blocked
    deployed(original)
    async with opened(store, channels=[wall]) as supervisor:
        await supervisor.resume("s")
        await anyio.sleep(1)
        assert [*wall.cards.values()] == [False]


class SlowWall(Wall):
    """A channel that takes a minute to show a card."""

    card_timeout = 100.0

    async def post(self, approval, card=None) -> str:
        await anyio.sleep(60)
        return await super().post(approval, card)


async def test_a_card_under_way_is_renewed_when_its_session_becomes_blocked(deployed):
    """R1: the change comes while the channel still shows the card. The card is renewed afterwards."""
    store, wall = await left_waiting(deployed(original)), SlowWall()
    deployed(returns)
    async with opened(store, channels=[wall]) as supervisor:
        await supervisor.resume("s")
        await anyio.sleep(130)
        assert [*wall.cards.values()] == [True]


@pytest.mark.slow
async def test_a_hundred_blocked_runs_are_tried_once_by_each_process_and_journaled_once(deployed):
    """Ten daemons start: each run has ten attempts and one RunBlocked, and no crash loop follows."""
    spec, store, sessions = deployed(original), MemoryStore(), [f"s{number}" for number in range(100)]
    async with opened(store) as supervisor:
        for session in sessions:
            await supervisor.start(spec, session=session)
        while len(await supervisor.find_approvals()) < len(sessions):
            await anyio.sleep(0.01)
        killed = fork(store)
    deployed(returns)
    for _ in range(10):
        await anyio.sleep(2 * SILENT.total_seconds())  # however old
        async with opened(killed, adopt=True) as supervisor:
            await anyio.sleep(100)
            assert {view.status for view in await supervisor.find_sessions()} == {"blocked"}
            assert (await supervisor.get_counts()).blocked_sessions == len(sessions)
            with pytest.raises(RunBlocked):
                await (await supervisor.get_run("s7")).outcome()
    assert {names(killed, session).count("RunBlocked") for session in sessions} == {1}
    assert {names(killed, session).count("AttemptStarted") for session in sessions} == {11}
    deployed(original)
    async with opened(killed, unattended="allow") as supervisor:
        await supervisor.resume_all()
        assert {(await (await supervisor.get_run(session)).outcome()).value for session in sessions} == {"prod 8 after"}


async def test_a_blocked_child_shows_above_and_its_parent_waits(deployed):
    """The parent's watchdog is paused, a program that waits for the root is told, and siblings go on."""

    deployed(original)
    store = await left_waiting(parent, asks=2)
    deployed(returns)
    async with opened(store) as supervisor:
        run = await supervisor.resume("s")
        with pytest.raises(RunBlocked):
            await run.outcome()
        views = {view.path[-1]: view.status for view in await supervisor.find_sessions()}
        assert views == {"parent": "blocked", "original": "blocked", "waits": "waiting_approval"}
        sibling = next(each for each in await supervisor.find_approvals() if each.agent == "waits")
        await supervisor.decide(sibling.id, Approve(by="ana"))
        await anyio.sleep(DAY)
        views = {view.path[-1]: view.status for view in await supervisor.find_sessions()}
        assert views == {"parent": "blocked", "original": "blocked", "waits": "completed"}


@agent(inactivity_timeout=60)
async def parent(ctx: Context) -> list[str]:
    first, second = await ctx.spawn(HERE.worker), await ctx.spawn(waits)
    return [await second.result(), await first.result()]


@agent
async def waits(ctx: Context) -> str:
    return (await ctx.call(deploy, "sibling")).content


async def test_slow_unchanged_code_is_presumed_blocked_and_goes_on(deployed):
    """One branch waits for the replay while another one thinks for 20 s. The run does not stay blocked."""

    async def thinks(ctx: Context) -> str:
        async def think(branch: Context) -> None:
            await anyio.sleep(20)
            await branch.call(deploy, "thought")

        async with ctx.task_group() as tasks:
            tasks.start_soon(think)
            await ctx.call(deploy, "first")
            await ctx.call(deploy, "second")
        return "done"

    spec = deployed(thinks)
    store = MemoryStore()
    async with opened(store, passivate_after=DAY) as supervisor:
        await supervisor.start(spec, session="s")
        await anyio.sleep(30)
        first = next(each for each in await supervisor.find_approvals() if "first" in str(each.arguments))
        await supervisor.decide(first.id, Approve(by="ana"))
        await anyio.sleep(1)
        killed = fork(store)
    async with opened(killed, unattended="allow") as supervisor:
        run = await supervisor.resume("s")
        await anyio.sleep(10)
        assert await run.result() == "done"
    assert effects.count("thought") == effects.count("second") == 1


async def test_a_cancel_that_is_committed_with_the_end_of_a_block_ends_that_run_alone():
    """Its own code is silent for so long in a replay that the run is presumed blocked. Then it asks for all."""
    pauses = [1, 10]

    async def late(ctx: Context) -> None:
        await anyio.sleep(pauses.pop(0))
        await ctx.ask("Which?")

    @agent
    async def asks_late(ctx: Context) -> None:
        async with ctx.task_group() as group:
            group.start_soon(late)
            await ctx.call(deploy, "a")

    async with opened() as supervisor:
        await supervisor.start(asks_late, session="s")
        await anyio.sleep(5)
        store = HeldStore()
        vars(store).update(vars(fork(supervisor.store)))
    async with opened(store) as supervisor:
        run = await supervisor.resume("s")
        await anyio.sleep(10.05)
        assert names(store, "s")[-1] == "RunBlocked"
        store.is_held = True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run.cancel)
            await anyio.sleep(1)
            store.is_held = False
        assert (await run.outcome()).kind == "cancelled"
