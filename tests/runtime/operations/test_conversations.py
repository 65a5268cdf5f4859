"""R7: a message to a session is received or begins a turn. No message is lost, and none is received twice."""

import anyio
import pytest
from scenes import ForkingStore, events, fork, names, opened, replayed
from watching import next_of

from supervisor import Approve, Context, Deny, InvalidInput, MemoryStore, NotFound, agent, tool
from supervisor.core import events as e

pytestmark = pytest.mark.anyio
WEEK = 7 * 86_400.0
effects: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_has_run():
    effects.clear()


class Killed(Exception):
    """Raised by the body of a supervisor to leave it half-way."""


@tool(policy="allow")
async def effect(name: str) -> str:
    effects.append(name)
    return name


@tool
async def asked(name: str) -> str:
    effects.append(name)
    return name


@agent
async def chats(ctx: Context, text: str) -> str:
    """Returns its input, and the number of messages before it."""
    return f"{text} ({len(ctx.transcript())})"


@agent
async def listens(ctx: Context, count: int = 1) -> list[str]:
    return [await ctx.receive() for _ in range(count)]


@agent
async def asks_first(ctx: Context, text: str) -> str:
    if text != "go on":
        await ctx.call(asked, text)
    return text


@pytest.fixture
def store(new_store):
    """A store that outlives the supervisors on it."""
    return new_store


async def ended(supervisor, session: str, runs: int):
    """Wait until so many runs of a session have ended and no later one has begun. Return each run's result."""
    with anyio.fail_after(10):
        while True:
            outcomes = events(supervisor.store, session, e.RunFinished)
            if len(outcomes) >= runs and (await supervisor.get_session(session)).outcome is not None:
                return [bytes(event.value).decode() for event in outcomes]
            await anyio.sleep(0.01)


async def test_a_message_to_an_idle_session_begins_a_turn(store):
    """Each turn is a run of its own, with the message as its input."""
    async with opened(store) as supervisor:
        run = await supervisor.start(chats, "hi", session="s")
        assert await run.result() == "hi (0)"
        receipt = await supervisor.send("s", "more", by="ann")
        assert (receipt.kind, receipt.running, receipt.waiting_for) == ("begun", True, ())
        assert await ended(supervisor, "s", 2) == ['"hi (0)"', '"more (2)"']
        assert await (await supervisor.get_run("s")).outcome() == await (await supervisor.get_run("s")).outcome()
        assert [message.by for message in events(store, "s", e.MessageReceived)] == ["ann"]


async def test_a_message_that_no_run_can_receive_is_refused():
    """The agent takes no text, the sub-agent has ended, or the session does not exist. Nothing is journaled."""

    @agent
    async def parent(ctx: Context, text: str) -> str:
        return str(len(await ctx.run(chats, text)))

    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(parent, "hi", session="p")).result()
        await supervisor.cancel((await supervisor.start(listens, session="s")).session)
        (child,) = [view.id for view in await supervisor.find_sessions() if view.parent]
        await (await supervisor.get_run("s")).outcome()
        before = store.last_position()
        for session, error in (("s", InvalidInput), (child, InvalidInput), ("nobody", NotFound)):
            with pytest.raises(error):
                await supervisor.send(session, "hello")
        with pytest.raises(InvalidInput):
            await supervisor.send("p", "hello", by=" ")
        assert store.last_position() == before


async def test_a_message_during_a_run_is_kept_and_the_result_names_the_approvals(store):
    """After the approval it begins the next turn. The result names the approval, even that of a sub-agent."""
    async with opened(store) as supervisor:
        run = await supervisor.start(asks_first, "ask", session="s")
        approval = await next_of(run.watch_approvals())
        receipt = await supervisor.send("s", "go on")
        assert receipt.kind == "kept"
        assert [waiting.id for waiting in receipt.waiting_for] == [approval.id]
        await anyio.sleep(100)
        assert await run.find_outcome() is None
        await supervisor.decide(approval.id, Approve(by="ann"))
        assert await ended(supervisor, "s", 2) == ['"ask"', '"go on"']
        assert await run.result() == "ask"
    assert effects == ["ask"]


async def test_messages_that_were_not_received_begin_the_next_turns_one_by_one():
    """Oldest first, each once."""
    async with opened() as supervisor:
        run = await supervisor.start(asks_first, "ask", session="s")
        approval = await next_of(run.watch_approvals())
        for number in range(3):
            assert (await supervisor.send("s", f"go on {number}")).kind == "kept"
        await supervisor.decide(approval.id, Approve(by="ann"))
        for number in range(3):
            approval = await next_of(supervisor.watch_approvals())
            assert approval.arguments == {"name": f"go on {number}"}
            await supervisor.decide(approval.id, Approve(by="ann"))
        await ended(supervisor, "s", 4)
    assert effects == ["ask", "go on 0", "go on 1", "go on 2"]


async def test_receive_is_a_named_pause_that_sleeps_and_wakes():
    """There is no stall in a week, and the run is passivated meanwhile. The message wakes it, even in another
    process."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(listens, 2, session="s")
        await anyio.sleep(WEEK)
        assert "s" not in supervisor._runner.attempts.live
        assert (await supervisor.send("s", "one")).kind == "delivered"
        await anyio.sleep(WEEK)
        assert await run.find_outcome() is None
    async with opened(store) as supervisor:
        receipt = await supervisor.send("s", "two")
        assert (receipt.kind, receipt.running) == ("delivered", True)
        assert (await (await supervisor.get_run("s")).outcome()).value == ["one", "two"]
    assert "RunPassivated" in names(store, "s")


async def test_two_receivers_get_different_messages_and_a_replay_gives_them_the_same():
    """Whichever receiver is first, no message is received twice."""

    @agent
    async def two(ctx: Context) -> list[str]:
        got = []

        async def one(context: Context, name: str) -> None:
            got.append(f"{name} {await context.receive()}")
            await ctx.call(effect, got[-1])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(one, ctx.branch("left"), "left")
            tasks.start_soon(one, ctx.branch("right"), "right")
        await ctx.call(asked, "after")
        return got

    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(two, session="s")
        await anyio.sleep(1)
        await supervisor.send("s", "A")
        await anyio.sleep(1)
    async with opened(store) as supervisor:
        run = await supervisor.resume("s")
        await supervisor.send("s", "B")
        await supervisor.decide((await next_of(run.watch_approvals())).id, Approve(by="ann"))
        got = await run.result()
    assert effects == [*got, "after"]
    assert sorted(one.split()[0] for one in got) == ["left", "right"]
    assert [one.split()[1] for one in got] == ["A", "B"]


async def test_a_message_of_an_agent_is_sent_once_over_restarts():
    """`send` and the text result of a turn come in order. A result that is not text is not sent."""

    @agent
    async def says(ctx: Context, text: str) -> str | int:
        await ctx.send(f"about {text}")
        await ctx.call(asked, text)
        await ctx.send("done")
        return text if text != "number" else 7

    store = MemoryStore()
    async with opened(store) as supervisor:
        await supervisor.start(says, "this", session="s")
    for text in ("this", "number"):
        for _ in range(2):
            async with opened(store) as supervisor:
                await supervisor.resume("s")
        async with opened(store) as supervisor:
            run = await supervisor.resume("s")
            await supervisor.decide((await next_of(run.watch_approvals())).id, Approve(by="ann"))
            await run.outcome()
            if text == "this":
                await supervisor.send("s", "number")
    said = [event.text for event in events(store, "s", e.MessageSent)]
    assert said == ["about this", "done", "this", "about number", "done"]


async def test_the_transcript_is_the_same_in_every_attempt_of_a_turn():
    """It has the messages before the turn, with each approval where it was asked and its answer (A15), and none from
    during the turn."""
    seen = []

    @agent
    async def remembers(ctx: Context, text: str) -> str:
        seen.append([(one.kind, one.text.partition(" ")[0], one.by) for one in ctx.transcript()])
        await ctx.send("asking")
        await ctx.call(asked, text)
        return f"{text} done"

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(remembers, "one", session="s", requester="eve")
        await supervisor.decide((await next_of(run.watch_approvals())).id, Approve(by="ann"))
        await run.outcome()
        await supervisor.send("s", "two", by="bob")
    async with opened(store) as supervisor:
        await supervisor.send("s", "later")
        await supervisor.resume("s")
    async with opened(store) as supervisor:
        run = await supervisor.resume("s")
        await supervisor.decide((await next_of(run.watch_approvals())).id, Approve(by="bob"))
        assert await run.result() == "two done"
    told = [("received", "one", "eve"), ("sent", "asking", None), ("approval", "asked", "ann"), ("sent", "one", None)]
    then = [("received", "two", "bob"), ("sent", "asking", None), ("approval", "asked", "bob"), ("sent", "two", None)]
    assert seen[0] == []
    assert seen[1:3] == [told] * 2
    assert seen[3] == [*told, *then]


async def test_an_approval_in_the_transcript_shows_its_answer():
    """It shows who approved or denied it, and why. It is withdrawn if the agent abandoned the call, or the run was
    cancelled."""

    @agent
    async def several(ctx: Context, text: str) -> list[tuple[str, str | None]]:
        for name in ("one", "two") if text == "hi" else ():
            await ctx.call(asked, name)
        if text == "hi":
            async with ctx.move_on_after(5):
                await ctx.call(asked, "three")
            await ctx.call(asked, "four")
        return [(one.text.partition(": ")[2], one.by) for one in ctx.transcript() if one.kind == "approval"]

    async with opened() as supervisor:
        run = await supervisor.start(several, "hi", session="s")
        async with run.watch_approvals() as reader:
            await supervisor.decide((await anext(reader)).id, Approve(by="ann"))
            await supervisor.decide((await anext(reader)).id, Deny(by="bob", reason="no"))
            assert [(await anext(reader)).arguments["name"] for _ in range(2)] == ["three", "four"]
            await run.cancel("enough")
            await run.outcome()
            await supervisor.send("s", "then")
            answers = await (await supervisor.get_run("s")).result()
    assert answers[:3] == [["approve", "ann"], ["deny (no)", "bob"], ["withdrawn", None]]
    assert answers[3][0].startswith("withdrawn")


@pytest.mark.parametrize("name", ["one", "other"])
async def test_an_edited_call_stands_in_the_transcript_as_it_ran(name):
    """A8: the original arguments follow. An edit that changes nothing is not shown as one, here and on the approval."""

    @agent
    async def calls(ctx: Context, text: str) -> list[str]:
        await ctx.call(asked, "one")
        return [one.text for one in ctx.transcript() if one.kind == "approval"]

    async with opened() as supervisor:
        run = await supervisor.start(calls, "hi", session="s")
        approval = await next_of(run.watch_approvals())
        await supervisor.decide(approval.id, Approve(by="ann", arguments={"name": name}))
        await run.result()
        await supervisor.send("s", "again")
        (told,) = [one for one in await supervisor.get_transcript("s") if one.kind == "approval" and one.by == "ann"]
        assert told.text.startswith(f'asked {{"name":"{name}"}}')
        assert ('{"name":"one"}' in told.text, told.text.endswith(": approve")) == (True, True)
        decided = await supervisor.get_approval(approval.id)
        assert (decided.arguments, decided.edited) == ({"name": name}, name != "one")
        await supervisor.cancel("s", by="ann")


async def test_a_message_is_in_the_transcript_where_the_agent_took_it():
    """A received message is there. A message that still waits is not in the transcript yet."""

    @agent
    async def hears(ctx: Context, text: str) -> list[str]:
        if text == "hi":
            await ctx.receive()
        return [one.text for one in ctx.transcript()]

    async with opened() as supervisor:
        run = await supervisor.start(hears, "hi", session="s")
        await supervisor.send("s", "heard")
        await run.outcome()
        await supervisor.send("s", "two")
        await supervisor.send("s", "three")
        assert await ended(supervisor, "s", 3) == ["[]", '["hi","heard"]', '["hi","heard","two"]']


async def test_a_cancelled_runs_messages_wait_for_the_next_one():
    """A person who cancels does not want a new turn at once. The next message begins one with the oldest message."""
    async with opened() as supervisor:
        await supervisor.start(asks_first, "ask", session="s")
        await supervisor.send("s", "first")
        await supervisor.cancel("s")
        assert (await (await supervisor.get_run("s")).outcome()).kind == "cancelled"
        await anyio.sleep(WEEK)
        assert (await supervisor.get_session("s")).outcome is not None
        assert (await supervisor.send("s", "go on")).kind == "kept"
        approval = await next_of(supervisor.watch_approvals())
        assert approval.arguments == {"name": "first"}
        await supervisor.decide(approval.id, Approve(by="ann"))
        assert (await ended(supervisor, "s", 3))[1:] == ['"first"', '"go on"']


async def test_a_second_turn_begins_anew():
    """Its sub-agents have sessions of their own, and its identical calls run: each run has its own operations."""

    @agent
    async def delegates(ctx: Context, text: str) -> str:
        await ctx.call(effect, "the same")
        return await ctx.run(chats, "child")

    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(delegates, "x", session="s")).result()
        await supervisor.send("s", "y")
        await ended(supervisor, "s", 2)
        children = {view.id for view in await supervisor.find_sessions() if view.parent == "s"}
    assert len(children) == 2
    assert effects == ["the same"] * 2


async def test_a_handle_gives_the_outcome_of_its_own_run():
    """So it does if the next turn began in the append that ended the run. Approvals of that turn are not the run's."""
    async with opened() as supervisor:
        run = await supervisor.start(asks_first, "ask", session="s")
        first = await next_of(run.watch_approvals())
        await supervisor.send("s", "ask again")
        await supervisor.decide(first.id, Approve(by="ann"))
        second = await next_of(supervisor.watch_approvals())
        assert await run.result() == "ask"
        assert await run.find_outcome() is not None
        with anyio.fail_after(1):
            async with run.watch_approvals() as watch:
                assert [approval.id async for approval in watch] == []
        turn = await supervisor.get_run("s")
        assert await turn.find_outcome() is None
        await run.cancel()
        await supervisor.decide(second.id, Approve(by="ann"))
        assert await turn.result() == "ask again"


async def test_starting_again_with_the_same_input_goes_on_with_the_conversation():
    """A program that is started again names the same session and first input. Later turns make no conflict."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(chats, "hi", session="s")).result()
        await supervisor.send("s", "more")
        await ended(supervisor, "s", 2)
    async with opened(store) as supervisor:
        run = await supervisor.start(chats, "hi", session="s")
        assert await run.result() == "hi (0)"
    assert len(events(store, "s", e.RunStarted)) == 2


@agent
async def converses(ctx: Context, text: str) -> str:
    """Two branches that receive, an approval, and a sent message: the parts of a conversation."""
    heard = [text]

    async def hear(context: Context) -> None:
        heard.append(await context.receive())
        await context.call(effect, f"heard {heard[-1]}")

    async with ctx.task_group() as group:
        if text == "first":
            group.start_soon(lambda context: hear(context))
            group.start_soon(lambda context: hear(context))
    await ctx.send(f"said {text}")
    await ctx.call(asked, f"asked {text}")
    return " ".join(sorted(heard))


async def converse(supervisor) -> list[str]:
    """Send the messages that were not sent yet, approve every call, and return each turn's result at the end."""
    await supervisor.start(converses, "first", session="s")
    texts = {event.text for event in events(supervisor.store, "s", e.MessageReceived)}
    async with anyio.create_task_group() as tasks:

        async def approve() -> None:
            async with supervisor.watch_approvals() as watch:
                async for approval in watch:
                    await supervisor.decide(approval.id, Approve(by="ann"))

        tasks.start_soon(approve)
        for text in ("A", "B", "C", "D"):
            await anyio.sleep(0.01)
            if text not in texts:
                await supervisor.send("s", text)
        results = await ended(supervisor, "s", 3)
        tasks.cancel_scope.cancel()
    return results


ENDING = ['"A B first"', '"C"', '"D"']
SAID = ["said first", "A B first", "said C", "C", "said D", "D"]


async def test_left_by_an_exception_at_every_append_no_message_is_lost_or_heard_twice():
    """R7: after each commit the rest is continued to the same end, and nothing is sent or done twice."""
    store = ForkingStore(look=lambda: list(effects))
    async with opened(store) as supervisor:
        assert await converse(supervisor) == ENDING
        for session, state in supervisor._runner.journal.states.items():
            assert state == replayed(store, session)
    assert len(store.copies) > 20
    for copy, before in store.copies:
        effects[:] = before
        async with opened(copy) as supervisor:
            await supervisor.resume_all()
            assert await converse(supervisor) == ENDING
        assert [event.text for event in events(copy, "s", e.MessageSent)] == SAID
        assert len(events(copy, "s", e.MessageReceived)) == 4
        assert not replayed(copy, "s").inbox
        assert len(effects) == len(set(effects))


async def test_stopped_again_and_again_it_comes_to_the_same_end(store):
    """R7, R8: a supervisor that an exception leaves at any moment loses no message."""
    lives, results = 0, None
    while results is None:
        lives += 1
        try:
            async with opened(store) as supervisor:
                await supervisor.resume_all()
                with anyio.move_on_after(lives * 0.004):
                    results = await converse(supervisor)
                if results is None:
                    raise Killed
                said = [event.text for event in events(store, "s", e.MessageSent)]
        except Killed:
            pass
    assert lives > 3
    assert (results, said) == (ENDING, SAID)
    assert len(effects) == len(set(effects)) == 5


async def test_live_state_is_the_replayed_state_in_a_conversation():
    """R1: it is so at every moment without unwritten notes."""
    store = MemoryStore()
    compared = 0
    async with opened(store) as supervisor, anyio.create_task_group() as tasks:
        tasks.start_soon(converse, supervisor)
        journal = supervisor._runner.journal
        for _ in range(300):
            await anyio.sleep(0.0005)
            if "s" in journal.states and not journal.count_notes("s"):
                assert journal.states["s"] == replayed(store, "s")
                compared += 1
    assert compared > 20
    assert fork(store).journal("s") == store.journal("s")


@agent
async def chooses(ctx: Context) -> list[str]:
    """Takes the first of a decision and a message, and then the message if it was not the first."""
    got: list[str] = []

    async def one(name: str) -> None:
        got.append(await ctx.receive() if name == "message" else (await ctx.call(asked, name)).kind)
        if name != "beside":
            race.cancel_scope.cancel()

    async with anyio.create_task_group() as beside:
        beside.start_soon(one, "beside")
        async with anyio.create_task_group() as race:
            race.start_soon(one, "message")
            race.start_soon(one, "decision")
    return [*got, *([] if "hello" in got else [await ctx.branch("then").receive()])]


async def test_a_cancelled_receive_leaves_its_message():
    """R7: even if the message has woken it while other results came first. The next `receive` gets the message."""
    for _ in range(10):
        async with opened() as supervisor:
            run = await supervisor.start(chooses, session="s")
            other = await supervisor.start(listens, session="other")
            await anyio.sleep(1)
            pending = sorted(
                await supervisor.find_approvals(), key=lambda approval: approval.arguments["name"], reverse=True
            )
            async with (
                anyio.create_task_group() as together
            ):  # the first one commits at once, and later ones in one batch
                together.start_soon(supervisor.send, "other", "x")
                together.start_soon(supervisor.send, "s", "hello")
                for approval in pending:
                    together.start_soon(supervisor.decide, approval.id, Deny(by="ann"))
            await other.outcome()
            assert "hello" in await run.result()


async def test_a_message_that_no_run_can_receive_any_more_is_journaled_as_undelivered():
    """R7: so it is for a sub-agent, and for an agent that takes no text. It is journaled with the end, and leaves the
    inbox."""

    @agent
    async def deaf(ctx: Context) -> str:
        return (await ctx.call(asked, "deaf")).kind

    @agent
    async def parent(ctx: Context) -> str:
        return await ctx.run(deaf)

    store = MemoryStore()
    async with opened(store) as supervisor:
        for agent_, session in ((deaf, "d"), (parent, "p")):
            run = await supervisor.start(agent_, session=session)
            approval = await next_of(run.watch_approvals())
            assert (await supervisor.send(approval.session, "hello", by="ann")).kind == "kept"
            await supervisor.decide(approval.id, Approve(by="ann"))
            await run.result()
            (event,) = events(store, approval.session, e.MessageUndelivered)
            assert (event.text, event.by) == ("hello", "ann")
            assert not replayed(store, approval.session).inbox


async def test_a_message_to_a_session_that_is_being_cancelled_for_good_is_refused():
    """R7: `send` refuses a message at once if no run can ever receive it."""

    @agent(stop_timeout=1000)
    async def slow_to_end(ctx: Context) -> None:
        try:
            await ctx.sleep(1e6)
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.sleep(100)

    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(slow_to_end, session="s")
        await anyio.sleep(1)
        await run.cancel()
        assert await run.find_outcome() is None
        with pytest.raises(InvalidInput):
            await supervisor.send("s", "hello")
        assert (await run.outcome()).kind == "cancelled"
