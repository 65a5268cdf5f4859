"""More of the one suite for all Supervisors: commands without a person, messages, lists and watches of one tree."""

import anyio
import pytest
from scene_agents import boss, listening, noting_one, occupied, speaking

from supervisor import Answer, Approve, Context, Deny, agent, allow
from supervisor.core import events as e
from supervisor.system.identity import current_user
from supervisor.tools import shell

pytestmark = pytest.mark.anyio

on_one_machine = pytest.mark.parametrize("kind", ["local", "remote"])
everywhere = pytest.mark.parametrize("kind", ["local", "remote", "temporal"])


@agent(rules=[allow(shell)])
async def keeping(ctx: Context, command: str) -> str:
    """Begins a background job, and waits for a person."""
    await ctx.call(shell, command, background=True)
    return await ctx.ask("Enough?")


async def asked(run):
    """Return the next approval of a run and those below it."""
    async with run.watch_approvals() as watch:
        return await anext(watch)


@everywhere
async def test_resuming_gives_the_runs_of_the_roots(opened):
    """Of the root of a sub-agent, and of every open tree."""
    async with opened() as here:
        done = await here.supervisor.start(listening, 0, requester="olga")
        await done.outcome()
        runs = [await here.supervisor.start(boss, [text], requester="olga") for text in ("a", "b")]
        below = [await asked(run) for run in runs]
        found = {run.session: run for run in await here.supervisor.resume_all(by="olga")}
        assert {each.session for each in (done, *runs, *below)} & {*found} == {run.session for run in runs}
        again = await here.supervisor.resume(below[0].session, by="olga")
        assert (again.session, again.number) == (runs[0].session, 1)
        for question in below:
            await here.supervisor.decide(question.id, Answer(value="fine", by="olga"))
        assert (await again.result(), await found[runs[1].session].result()) == (["a fine"], ["b fine"])


@on_one_machine
async def test_background_jobs_are_listed_until_their_session_ends(opened):
    """And afterwards as jobs that have ended. On Temporal the call is refused: jobs stay on one machine."""
    async with opened(agents=(keeping,)) as here:
        run = await here.supervisor.start(keeping, "sleep 1000", requester="olga")
        await asked(run)
        (job,) = await here.supervisor.find_jobs()
        assert (job.session, job.state, job.command) == (run.session, "running", "sleep 1000")
        await here.supervisor.cancel(run.session, by="olga")
        with anyio.fail_after(30):
            while list(await here.supervisor.find_jobs()):  # its processes are ended after its run
                await anyio.sleep(0.01)
        (ended,) = await here.supervisor.find_jobs(running=False)
        assert (ended.job, ended.state) == (job.job, "ended")


@everywhere
async def test_the_last_words_of_a_run_are_in_its_outcome(opened):
    """W9: whoever waits for it reads them."""
    async with opened() as here:
        outcome = await (await here.supervisor.start(speaking, requester="olga")).outcome()
        assert (outcome.kind, outcome.said) == ("failed", "the port is wrong")


@everywhere
async def test_the_inbox_of_a_session_has_it_and_those_below_it(opened):
    """And no others: neither what is pending elsewhere, nor what changes there."""
    async with opened() as here:
        other = await here.supervisor.start(noting_one, "bread", requester="olga")
        elsewhere = await asked(other)
        run = await here.supervisor.start(boss, ["a"], requester="olga")
        async with here.supervisor.watch_inbox(session=run.session) as inbox:
            question = await anext(inbox)
            await here.supervisor.decide(elsewhere.id, Deny(by="olga"))
            await other.outcome()
            await here.supervisor.decide(question.id, Answer(value="fine", by="olga"))
            answered = await anext(inbox)
        assert question.path == ("boss", "worker")
        assert (answered.id, answered.status) == (question.id, "answered")


@everywhere
async def test_a_message_is_delivered_or_kept(opened):
    """Delivered to an agent that waits for it, and kept for one that waits for a person first."""
    async with opened() as here:
        busy = await here.supervisor.start(occupied, "bread", requester="olga")
        call = await asked(busy)
        kept = await here.supervisor.send(busy.session, "later", by="olga")
        assert (kept.kind, kept.running, [each.id for each in kept.waiting_for]) == ("kept", True, [call.id])
        await here.supervisor.decide(call.id, Approve(by="olga"))
        assert await busy.result() == ["noted bread", "later"]
        run = await here.supervisor.start(listening, 100, requester="olga")
        while (sent := await here.supervisor.send(run.session, "now", by="olga")).kind != "delivered":
            assert sent.kind == "kept"  # the agent has not come to wait yet
            await anyio.sleep(0.01)
        assert (sent.session, sent.running, sent.waiting_for) == (run.session, True, ())
        await here.supervisor.cancel(run.session, by="olga")


@everywhere
async def test_approvals_that_are_decided_are_listed_too(opened):
    """With how they have ended, oldest first, of one tree or of all."""
    async with opened() as here:
        runs, calls = [], []
        for text in ("bread", "cake", "tea"):
            runs.append(await here.supervisor.start(noting_one, text, requester="olga"))
            calls.append(await asked(runs[-1]))
        for call, decision in zip(calls, (Approve(by="olga"), Deny(by="olga")), strict=False):
            await here.supervisor.decide(call.id, decision)
        found = await here.supervisor.find_approvals(pending=False, limit=None)
        mine = {each.id: each.status for each in found if each.session in {run.session for run in runs}}
        assert list(mine.items()) == [*zip((each.id for each in calls), ("approved", "denied", "pending"), strict=True)]
        (own,) = await here.supervisor.find_approvals(pending=False, session=runs[0].session)
        assert (own.id, own.status, own.by) == (calls[0].id, "approved", "olga")
        assert calls[0].id not in [each.id for each in await here.supervisor.find_approvals()]
        await here.supervisor.cancel(runs[2].session, by="olga")


@everywhere
async def test_a_command_without_a_name_is_of_who_is_connected(kind, opened):
    """The person of the token over HTTP; next to a store, the program's own user."""
    me = "olga" if kind == "remote" else current_user()
    async with opened() as here:
        run = await here.supervisor.start(noting_one, "bread")
        assert (await asked(run)).requester == me
        await here.supervisor.cancel(run.session)
        await run.outcome()
        rows = await here.supervisor.find_entries(run.session)
        assert [row.event.by for row in rows if isinstance(row.event, e.CancelRequested)] == [me]
