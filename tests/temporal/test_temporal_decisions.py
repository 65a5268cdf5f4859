"""Decisions are signals, which the history of a tree orders; the rules travel with its start and its bodies."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from temporal_server import histories, namespace, working
from temporalio.api.enums.v1 import EventType

from supervisor import Answer, Approve, Context, Deny, QuestionUnanswered, agent, deny, tool
from supervisor.core import events as e
from supervisor.temporal import open_temporal
from supervisor.temporal.client import decisions, starting
from supervisor.temporal.wire import CLAIM, QUEUE, DecisionRequest, Start, decision_fields, decision_id, to_wire
from supervisor.testing import replaced

pytestmark = pytest.mark.anyio
happened: list[str] = []


@tool
async def push(button: str) -> str:
    happened.append(button)
    return button


@tool(policy="allow")
async def look(button: str) -> str:
    happened.append(button)
    return button


@agent
async def pushing(ctx: Context, button: str) -> str:
    return (await ctx.call(push, button)).kind


@agent
async def looking(ctx: Context, times: int) -> list[str]:
    return [(await ctx.call(look, str(each))).kind for each in range(times)]


@agent
async def hurried(ctx: Context, seconds: float) -> str:
    with suppress(QuestionUnanswered):
        return str(await ctx.ask("Well?", expires_in=seconds))
    return "expired"


@pytest.fixture(autouse=True)
async def bounded():
    happened.clear()
    with anyio.fail_after(120):
        yield


async def asked(supervisor, session: str):
    while True:
        for each in await supervisor.find_approvals(limit=None):
            if each.session == session:
                return each
        await anyio.sleep(0.05)


BILLED = (
    "WORKFLOW_EXECUTION_STARTED",
    "UPSERT_WORKFLOW_SEARCH_ATTRIBUTES",
    "WORKFLOW_EXECUTION_SIGNALED",
    "ACTIVITY_TASK_SCHEDULED",
    "TIMER_STARTED",
)
"""What of a history Temporal Cloud bills. The mark and the query for the answer are in no history."""


async def events_of(url: str, session: str) -> list[str]:
    (history,) = (await histories(url, f'WorkflowId = "{session}"')).values()
    return [each["eventType"] for each in history["events"]]


async def test_an_approved_call_has_19_events_and_one_without_an_approval_6():
    """No claim, no read of the rules of its own, and no mark of the workflow: a start says what is new."""
    url = await namespace()
    async with working(url, [pushing, looking]), open_temporal(url) as supervisor:
        await supervisor.start(pushing, "red", session="p")
        result = await supervisor.decide((await asked(supervisor, "p")).id, Approve(by="ana"))
        assert result.kind == "accepted"
        assert await (await supervisor.get_run("p")).result() == "ok"
        counts = []
        for times in (1, 4):
            await (await supervisor.start(looking, times, session=f"l{times}")).result()
            counts.append(len(await events_of(url, f"l{times}")))
        approved = await events_of(url, "p")
        assert len(approved) == 19, approved
        assert sum(approved.count(f"EVENT_TYPE_{each}") for each in BILLED) == 5, "docs/how-to/temporal-cloud.md"
        assert counts[1] - counts[0] == 3 * 6
        client = supervisor.trees.client
        assert not [each async for each in client.list_workflows('WorkflowType = "supervisor.decision"')]


async def test_a_deny_that_comes_after_the_approval_was_asked_stops_the_call_at_its_effect():
    """The body compares the rules in the instant of its mark. The journal says `executing`, and then `denied`."""
    url = await namespace()
    async with working(url, [pushing]), open_temporal(url) as supervisor:
        await supervisor.start(pushing, "red", session="p")
        waiting = await asked(supervisor, "p")
        await supervisor.add_rule(deny("push"), by="bob")
        await supervisor.decide(waiting.id, Approve(by="ana"))
        assert await (await supervisor.get_run("p")).result() == "denied"
        entries = [row.event for row in await supervisor.find_entries("p")]
    kinds = [type(each) for each in entries if isinstance(each, e.ToolCallStarted | e.ToolCallFinished)]
    assert kinds == [e.ToolCallStarted, e.ToolCallFinished]
    assert happened == []


async def test_of_two_decisions_without_a_worker_the_first_counts_and_the_second_learns_whose_it_was(enter):
    """By the order of the history. A late one learns it from the memo when the tree has taken the first."""
    enter(replaced(decisions, "SOON_ENOUGH", 0.5))
    url = await namespace()
    async with open_temporal(url) as supervisor:
        async with working(url, [pushing]):
            await supervisor.start(pushing, "red", session="p")
            waiting = await asked(supervisor, "p")
        kinds = []
        for decision in (Approve(by="ana"), Deny(by="bob"), Approve(by="eve"), Approve(by="eve", scope="always")):
            result = await supervisor.decide(waiting.id, decision)
            assert (result.by, result.status) == ("ana", "approved")
            kinds.append(result.kind)
        assert kinds == ["recorded", "conflict", "already", "conflict"]
        async with working(url, [pushing]):
            assert await (await supervisor.get_run("p")).result() == "ok"
    async with open_temporal(url) as other:
        for decision, kind in ((Approve(by="bob"), "already"), (Deny(by="bob"), "conflict")):
            late = await other.decide(waiting.id, decision)
            assert (late.kind, late.by, late.status) == (kind, "ana", "approved")
    assert happened == ["red"]


async def test_a_decision_counts_if_it_was_made_in_time_and_comes_before_the_timer(enter):
    """Also if no worker lives when both come, and at the very instant. One that was made too late does not count,
    though it comes before."""
    enter(replaced(decisions, "SOON_ENOUGH", 0.2))
    url = await namespace()
    async with open_temporal(url) as supervisor:
        async with working(url, [hurried]):
            found = {}
            for session in ("early", "exact", "late"):
                await supervisor.start(hurried, 4.0, session=session)
            for session in ("early", "exact", "late"):
                found[session] = await asked(supervisor, session)
        for session, after in (("exact", 0.0), ("late", 1e-6)):
            at = found[session].expires_at + timedelta(seconds=after)
            given = decision_fields(Answer(by="eve", value="x"))
            request = DecisionRequest(id="x", approval=found[session].id, root=session, at=at.isoformat(), **given)
            await supervisor.trees.client.get_workflow_handle(session).signal("decide", to_wire(request))
        assert (await supervisor.decide(found["early"].id, Answer(by="ana", value="e"))).kind == "recorded"
        await anyio.sleep((found["late"].expires_at - datetime.now(UTC)).total_seconds() + 0.3)
        async with working(url, [hurried]):
            assert await (await supervisor.get_run("early")).result() == "e"
            assert await (await supervisor.get_run("exact")).result() == "x"
            assert await (await supervisor.get_run("late")).result() == "expired"


async def test_a_tree_of_former_code_takes_a_decision_that_is_a_signal(enter):
    """It claims expiries and reads the rules for each call, as its history does."""
    enter(replaced(starting, "Start", lambda **given: Start(**{**given, "has_signals": False})))
    url = await namespace()
    async with working(url, [pushing]), open_temporal(url) as supervisor:
        await supervisor.start(pushing, "red", session="p")
        waiting = await asked(supervisor, "p")
        assert (await supervisor.decide(waiting.id, Approve(by="ana"))).kind == "accepted"
        assert await (await supervisor.get_run("p")).result() == "ok"
    assert EventType.Name(EventType.EVENT_TYPE_MARKER_RECORDED) in await events_of(url, "p")


async def test_a_decision_that_former_code_has_claimed_counts_and_gets_its_answer():
    """A client of before the upgrade starts the workflow that claims it, and waits for that."""
    url = await namespace()
    async with working(url, [pushing]), open_temporal(url) as supervisor:
        await supervisor.start(pushing, "red", session="p")
        waiting = await asked(supervisor, "p")
        at = datetime.now(UTC).isoformat()
        request = to_wire(DecisionRequest(approval=waiting.id, root="p", at=at, **decision_fields(Approve(by="ana"))))
        claim = await supervisor.trees.client.start_workflow(
            CLAIM, request, id=decision_id(waiting.id), task_queue=QUEUE, memo={"decision": request}
        )
        assert (await claim.result())["kind"] == "accepted"
        assert await (await supervisor.get_run("p")).result() == "ok"
        assert (await supervisor.decide(waiting.id, Deny(by="bob"))).kind == "conflict"
