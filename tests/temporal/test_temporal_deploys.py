"""Code is deployed while runs wait: they keep their version and their path, or are shown as blocked until code follows.

The workers of a test run in its process, one after the other, with the code that is deployed then.
"""

import re
from contextlib import suppress
from functools import partial
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from clusters import histories
from fronts import missing
from temporal_server import namespace, working
from temporalio.api.enums.v1 import EventType
from temporalio.api.errordetails.v1 import NotFoundFailure
from temporalio.api.history.v1 import History, HistoryEvent
from temporalio.converter import DataConverter

from supervisor import Answer, Approve, Context, InvalidInput, RunBlocked, agent, tool
from supervisor.events import RunBlocked as Blocked, RunUnblocked as Unblocked
from supervisor.temporal import open_temporal
from supervisor.temporal.client import starting
from supervisor.temporal.mirror.stuck import FAILED_TASKS, block_of, find_block
from supervisor.temporal.wire import MEMO, Start
from supervisor.testing import replaced

pytestmark = [pytest.mark.anyio, pytest.mark.slow]


CREW = {"held_as": "crew", "name": "crew"}


async def note(text: str) -> str:
    return text


@tool
async def ship(first: str, second: str) -> str:
    return first + second


@agent
async def crew(ctx: Context) -> str:
    """Deployed anew by the tests."""
    return ""


@agent
async def boss(ctx: Context) -> list[str]:
    return [await ctx.run(crew), await ctx.run(crew)]


async def before(ctx: Context) -> str:
    await ctx.step(note, "before")
    return f"{ctx.version} {await ctx.ask('Where?')}"


async def after(ctx: Context) -> str:
    await ctx.step(note, "before")
    await ctx.step(note, "after")
    return f"{ctx.version} {await ctx.ask('Where?')} after"


async def patched(ctx: Context) -> str:
    return await (after if await ctx.patched("after") else before)(ctx)


async def asked(supervisor) -> str:
    """Return the id of what is asked, when there is one question that was not answered yet."""
    while not (found := await supervisor.find_approvals()):
        await anyio.sleep(0.05)
    return found[0].id


async def answered(supervisor) -> None:
    await supervisor.decide(await asked(supervisor), Answer(by="ana", value="Rome"))


@pytest.mark.parametrize("moves", [False, True])
@pytest.mark.parametrize(
    ("options", "code", "newer", "results"),
    [
        ({}, before, {"code": patched}, ["1 Rome", "1 Rome after"]),
        ({}, before, {"code": after, "version": "2", "versions": {"1": before}}, ["1 Rome", "2 Rome after"]),
        (
            {"version": "2"},
            after,
            {"code": before, "version": "3", "versions": {"2": after, "1": before}},
            ["2 Rome after", "3 Rome"],
        ),
    ],
    ids=["patch", "version", "older of three"],
)
async def test_a_sub_agent_keeps_its_path_and_the_next_one_takes_the_new_one(
    deployed, enter, moves, options, code, newer, results
):
    """In one workflow, also if it goes on in a new one. The marker that tells them apart is for the new path alone."""
    if moves:
        enter(replaced(starting, "Start", partial(Start, continue_after=12)))
    url = await namespace()
    deployed(code, **CREW, **options)
    async with working(url, [boss]), open_temporal(url) as supervisor:
        await supervisor.start(boss, session="b")
        await asked(supervisor)
    deployed(**newer, **CREW)
    async with working(url, [boss]), open_temporal(url) as supervisor:
        await answered(supervisor)
        await asked(supervisor)
    async with working(url, [boss]), open_temporal(url) as supervisor:
        await answered(supervisor)
        assert await (await supervisor.get_run("b")).result() == results
    assert (len(await histories(url, "b")) > 1) == moves


async def test_code_may_forget_a_change_and_its_old_path(deployed):
    """As on one machine: a mark is no operation."""
    url = await namespace()
    spec = deployed(patched, **CREW)
    async with working(url, [spec]), open_temporal(url) as supervisor:
        await supervisor.start(spec, session="c")
        await asked(supervisor)
    spec = deployed(after, **CREW)
    async with working(url, [spec]), open_temporal(url) as supervisor:
        await answered(supervisor)
        assert await (await supervisor.get_run("c")).result() == "1 Rome after"


async def test_a_run_without_versions_and_patches_costs_no_marker(deployed):
    """Its start says what is new in it."""
    url = await namespace()
    deployed(before, **CREW)
    async with working(url, [boss]), open_temporal(url) as supervisor:
        await supervisor.start(boss, session="b")
        await asked(supervisor)
    (history,) = (await histories(url, "b")).values()
    markers = [each for each in history["events"] if each["eventType"] == "EVENT_TYPE_MARKER_RECORDED"]
    assert markers == []


async def test_a_session_that_code_cannot_follow_is_blocked_until_code_does(deployed):
    """Each client, and the run that it waits for, says what its history asks for, and what the code did, as on one
    machine (R1)."""
    url, spec = await namespace(), deployed(before, **CREW)
    async with open_temporal(url) as supervisor, open_temporal(url) as other:
        async with working(url, [spec]):
            run = await supervisor.start(spec, session="c")
            question = await asked(supervisor)
        async with working(url, [deployed(shipping, **CREW)]):
            result = await supervisor.decide(question, Answer(by="ana", value="Rome"))
            assert (result.kind, result.blocked) == ("recorded", True)
            for view in (*await supervisor.find_sessions(), *await other.find_sessions()):
                assert view.status == "blocked"
                assert view.blocked is not None
                assert view.blocked.held == "step note"
                assert view.blocked.cause == f"the agent asked for {SHIPPED} instead"
            with pytest.raises(RunBlocked, match=re.escape(SHIPPED)):
                await run.outcome()
        async with working(url, [deployed(before, **CREW)]):
            with suppress(RunBlocked):  # until its task is tried again
                await run.outcome()
            while (view := await supervisor.get_session("c")).outcome is None:
                await anyio.sleep(0.2)
            assert (view.status, view.outcome["value"]) == ("completed", "1 Rome")
            kinds = [type(each.event) for each in await supervisor.find_entries("c")]
            assert [each for each in kinds if each in (Blocked, Unblocked)] == [Blocked, Unblocked]


SHIPPED = 'call ship {"first":"a","second":"b"}'


async def shipping(ctx: Context) -> str:
    return (await ctx.call(ship, "a", "b")).content


async def test_a_call_that_is_too_large_is_refused_before_a_person_is_asked():
    """Its arguments together have a limit, and no rule and no person could let it run."""
    url = await namespace()
    async with working(url, [greedy]), open_temporal(url) as supervisor:
        run = await supervisor.start(greedy, session="g")
        call = await asked(supervisor)
        assert (await supervisor.get_approval(call)).arguments == {"first": "a", "second": "b"}
        await supervisor.decide(call, Approve(by="ana"))
        assert await run.result() == "ab"


@agent
async def greedy(ctx: Context) -> str:
    half = "z" * 700_000
    with pytest.raises(InvalidInput, match="file"):
        await ctx.call(ship, half, half)
    return (await ctx.call(ship, "a", "b")).content


@pytest.mark.parametrize(
    "kind", [EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT, EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED]
)
async def test_a_task_that_fails_again_and_again_blocks_its_tree(kind):
    """The server keeps the first failure, and counts the others. A worker that died once or twice says nothing."""

    async def reversed_history(_: Any, **__: Any) -> Any:
        return SimpleNamespace(history=History(events=[HistoryEvent(event_type=kind)]), next_page_token=b"")

    service = SimpleNamespace(get_workflow_execution_history_reverse=reversed_history)
    client: Any = SimpleNamespace(namespace="n", workflow_service=service)
    found = list[Any]()
    for failures in range(FAILED_TASKS + 1):
        task = SimpleNamespace(attempt=failures + 1)
        raw = SimpleNamespace(pending_workflow_task=task)
        found.append(await find_block(client, SimpleNamespace(id="c", run_id="r", raw_description=raw)))
    assert found[:FAILED_TASKS] == [None] * FAILED_TASKS
    assert "3 times or more" in found[FAILED_TASKS].cause


async def test_a_block_names_the_question_that_was_shown_and_the_call_that_was_asked_for_instead():
    """Temporal's text names neither. If the worker has died that ran the code, its kind is told."""
    converter = DataConverter()
    memo = {"pending": [{"kind": "question", "question": "Where?"}], "left_out": []}
    (payload,) = await converter.encode([memo])
    event = HistoryEvent(event_id=5)
    event.workflow_properties_modified_event_attributes.upserted_memo.fields[MEMO].CopyFrom(payload)

    async def told() -> Any:
        return {"asked": {"call:ship:#1": SHIPPED}}

    def client(*, is_told: bool) -> Any:
        class Handle:
            def __init__(self, named: str, run_id: str | None = None) -> None:
                self.named = named

            async def describe(self, **_: Any) -> Any:
                if self.named == "diverged~r" and not is_told:
                    raise missing("", NotFoundFailure())
                return SimpleNamespace(run_id="r", memo=told)

            async def fetch_history_events(self) -> Any:
                yield event

        return SimpleNamespace(data_converter=converter, get_workflow_handle=Handle)

    text = "Nondeterminism error: ModifyWorkflowProperties machine does not handle this event: HistoryEvent(id: 5, x)"
    for is_told, asked in ((True, SHIPPED), (False, "a question, or another call that a person decides")):
        block = await block_of(client(is_told=is_told), "c", None, text)
        assert (block.held, block.cause) == ('ask "Where?"', f"the agent asked for {asked} instead")


BEFORE = """
from supervisor import Context, agent

async def shout(text: str) -> str:
    return text

@agent
async def helper(ctx: Context) -> str:
    await ctx.step(shout, "before")
    return f"{ctx.version} {await ctx.ask('Where?')}"

@agent
async def leader(ctx: Context) -> str:
    await ctx.step(shout, "leader")
    return await ctx.run(helper)
"""
AFTER = """
from supervisor import Context, agent

async def shout(text: str) -> str:
    return text

async def former(ctx: Context) -> str:
    await ctx.step(shout, "before")
    return f"{ctx.version} {await ctx.ask('Where?')}"

@agent(version="2", versions={"1": former})
async def helper(ctx: Context) -> str:
    return ctx.version

@agent
async def leader(ctx: Context) -> str:
    if await ctx.patched("no leader"):
        return await ctx.run(helper)
    await ctx.step(shout, "leader")
    return await ctx.run(helper)
"""


def test_a_session_of_a_worker_that_was_killed_goes_on_as_it_began_with_new_code(cluster, tmp_path):
    """Its worker dies while it waits, and the next one has other code. A session that begins then takes the new one."""
    agents = tmp_path / "agents.py"
    agents.write_text(BEFORE)
    cluster.worker(agents=agents)
    cluster.run("start", "leader", "--session", "s", code=3)
    (question,) = cluster.pending()
    cluster.kill()
    agents.write_text(AFTER)
    cluster.worker(agents=agents)
    cluster.run("answer", question["id"], "Rome")
    assert cluster.outcome("s")["value"] == "1 Rome"
    cluster.run("start", "leader", "--session", "t")
    assert cluster.outcome("t")["value"] == "2"
