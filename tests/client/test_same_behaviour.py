"""Agents do the same on every Supervisor: timers, steps, cancels, sub-agents."""

import anyio
import pytest
from remote_agents import effects
from scene_agents import (
    boss,
    chancy,
    delegating,
    hasty,
    impatient,
    level,
    naming,
    overdue,
    racing,
    sleeper,
    stepping,
    strict,
    stuck,
    unheard,
    worker,
)

from supervisor import Answer, Approve, Deny, RunFailed
from supervisor.core import events as e

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("kind", ["local", "remote", "temporal"])]


async def asked(run, count: int = 1) -> list:
    """Return the next approvals of a run and those below it."""
    async with run.watch_approvals() as watch:
        return [await anext(watch) for _ in range(count)]


async def happened(*expected: str) -> None:
    """Wait until this has happened, in any order."""
    while sorted(effects) != sorted(expected):
        await anyio.sleep(0.01)


# -- timers ------------------------------------------------------------------------------------------------------------


async def test_a_sleep_lasts_as_long_as_it_says(opened):
    """By the agent's own clock, and never shorter."""
    async with opened() as here:
        assert await (await here.supervisor.start(sleeper, 0.2, requester="olga")).result() >= 0.2


async def test_a_timer_leaves_its_block(opened):
    """The question in it is withdrawn, and a late answer says so. A timer that is not due leaves nothing."""
    async with opened() as here:
        run = await here.supervisor.start(hasty, requester="olga")
        assert await run.result() == [True, False]
        (question,) = await here.supervisor.find_approvals(pending=False, session=run.session)
        assert question.status == "withdrawn"
        assert (await here.supervisor.decide(question.id, Answer(value="yes", by="olga"))).kind == "closed"


async def test_a_question_and_an_approval_expire(opened):
    """A10: the agent is told, and nothing runs."""
    async with opened() as here:
        run = await here.supervisor.start(unheard, requester="olga")
        assert await run.result() == ["expired", "denied", "expired"]
        found = await here.supervisor.find_approvals(pending=False, session=run.session)
        assert [each.status for each in found] == ["expired", "expired"]
        assert (await here.supervisor.decide(found[1].id, Approve(by="olga"))).kind == "closed"
        assert effects == []


async def test_a_call_ends_at_its_deadline(opened):
    """Its result is an error, and the agent goes on."""
    async with opened() as here:
        assert await (await here.supervisor.start(overdue, requester="olga")).result() == [
            "error",
            "deadline",
            "read a",
        ]


async def test_a_step_without_progress_stalls_the_run(opened):
    """W5: that is an end of its own kind."""
    async with opened() as here:
        outcome = await (await here.supervisor.start(stuck, requester="olga")).outcome()
        assert (outcome.kind, outcome.value) == ("stalled", None)


# -- steps -------------------------------------------------------------------------------------------------------------


async def test_a_step_returns_its_value_or_raises_its_error(opened):
    """The value has its type; the error its name and its text."""
    async with opened() as here:
        run = await here.supervisor.start(stepping, "ann", requester="olga")
        assert await run.result() == ["Pair", "ann 3", "ValueError", "no more"]
        assert effects == ["paired ann"]


async def test_a_name_tells_equal_steps_apart(opened):
    """Each runs once, and a name is used once."""
    async with opened() as here:
        assert await (await here.supervisor.start(naming, requester="olga")).result() == ["ann", "ann"]
        assert effects == ["paired ann", "paired ann"]


async def test_an_instant_and_a_random_number_stay_the_same(opened, monkeypatch):
    """R10: a retry is given those that its run had before."""
    async with opened() as here:
        run = await here.supervisor.start(chancy, requester="olga")
        assert (await run.outcome()).kind == "failed"
        monkeypatch.setenv("SCENES_WORK", "1")
        instant, number = await (await here.supervisor.retry(run.session, by="olga")).result()
        assert effects == [f"{instant} {number}"]
        assert 0 <= float(number) < 1


# -- cancels -----------------------------------------------------------------------------------------------------------


async def test_a_scope_cancels_a_call_that_runs(opened):
    """The tool ends, and the agent goes on after it."""
    async with opened() as here:
        run = await here.supervisor.start(impatient, requester="olga")
        assert await run.result() == ["True", "read a"]
        assert effects == ["call runs", "call has ended"]


async def test_the_first_of_two_branches_cancels_the_others(opened):
    """One question is answered, the other one withdrawn, and a call that runs has ended."""
    async with opened() as here:
        run = await here.supervisor.start(racing, requester="olga")
        left, right = sorted(await asked(run, 2), key=lambda each: each.question)
        await happened("call runs")
        await here.supervisor.decide(right.id, Answer(value="me", by="olga"))
        assert await run.result() == "['me'] read a"
        assert effects == ["call runs", "call has ended"]
        assert [(await here.supervisor.get_approval(each.id)).status for each in (left, right)] == [
            "withdrawn",
            "answered",
        ]


async def test_a_cancel_takes_the_whole_tree(opened):
    """W8: the deepest session first, and the call that runs there ends."""
    async with opened() as here:
        run = await here.supervisor.start(level, 2, requester="olga")
        await happened("deepest runs")
        await here.supervisor.cancel(run.session, reason="enough", by="olga")
        outcome = await run.outcome()
        assert (outcome.kind, "enough" in outcome.cause) == ("cancelled", True)
        await happened("deepest runs", "deepest has ended")
        rows = await here.supervisor.find_entries(run.session, tree=True)
        ends = [row.session for row in rows if isinstance(row.event, e.RunFinished)]
        assert ends == [view.id for view in await here.supervisor.find_sessions(root=run.session)][::-1]


async def test_a_cancelled_run_withdraws_its_questions(opened):
    """Those of its sub-agents, too."""
    async with opened() as here:
        run = await here.supervisor.start(boss, ["a", "b"], requester="olga")
        questions = await asked(run, 2)
        await here.supervisor.cancel(run.session, by="olga")
        assert (await run.outcome()).kind == "cancelled"
        assert {(await here.supervisor.get_approval(each.id)).status for each in questions} == {"withdrawn"}


# -- sub-agents --------------------------------------------------------------------------------------------------------


async def test_sub_agents_work_at_the_same_time(opened):
    """Each has a session, and its result comes to the agent that has spawned it."""
    async with opened() as here:
        run = await here.supervisor.start(boss, ["a", "b"], requester="olga")
        questions = await asked(run, 2)
        for each in questions:
            value = each.question.removeprefix("What of ").removesuffix("?").upper()
            await here.supervisor.decide(each.id, Answer(value=value, by="olga"))
        assert await run.result() == ["a A", "b B"]
        assert len({each.session for each in questions} | {run.session}) == 3


async def test_an_agent_copes_with_sub_agents_that_do_not_succeed(opened):
    """One that it cancels itself, and one that fails."""
    async with opened() as here:
        run = await here.supervisor.start(strict, requester="olga")
        kind, why, error, cause = await run.result()
        assert (kind, "not needed" in why) == ("cancelled", True)
        assert (error, "a bad text" in cause) == (RunFailed.__name__, True)


async def test_a_sub_agent_is_cancelled_from_outside(opened):
    """Its parent is told, and the other sub-agents go on."""
    async with opened() as here:
        run = await here.supervisor.start(boss, ["a", "b"], requester="olga")
        first, second = sorted(await asked(run, 2), key=lambda each: each.question)
        await here.supervisor.cancel(first.session, by="olga")
        assert (await (await here.supervisor.get_run(first.session, agent=worker)).outcome()).kind == "cancelled"
        await here.supervisor.decide(second.id, Answer(value="fine", by="olga"))
        assert await run.result() == ["cancelled", "b fine"]


@pytest.mark.parametrize("decision", [Approve, Deny])
async def test_a_sub_agent_is_called_as_a_tool(opened, decision):
    """A person is asked first, and its result is the result of the call."""
    async with opened() as here:
        run = await here.supervisor.start(delegating, requester="olga")
        (call,) = await asked(run)
        assert call.tool == "sleeper"
        await here.supervisor.decide(call.id, decision(by="olga"))
        assert await run.result() == (["ok", "float"] if decision is Approve else ["denied", "NoneType"])
        assert len(await here.supervisor.find_sessions(root=run.session)) == (2 if decision is Approve else 1)
