"""What Temporal does not do, or does otherwise, in one table. The guide has the same list, and each entry is tried."""

import re
from collections.abc import Coroutine
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest
from clusters import Cluster
from pydantic_ai import Agent
from pydantic_ai.models.test import TestModel
from temporal_server import namespace, working

from supervisor import (
    Approve,
    ApproverRule,
    Context,
    InvalidInput,
    MemoryStore,
    People,
    Person,
    RunFailed,
    agent,
    allow,
    open_supervisor,
    tool,
)
from supervisor.agents.acp import acp_agent
from supervisor.agents.pydantic_ai import pydantic_agent
from supervisor.core.approvals.reminders import Reminders
from supervisor.core.store_urls import read_temporal_url
from supervisor.temporal import open_temporal, run_worker
from supervisor.temporal.mirror.store import MirrorFile
from supervisor.tools import shell
from supervisor.wiring.cluster import open_cluster

pytestmark = pytest.mark.anyio
LATE = datetime(2100, 1, 1, tzinfo=UTC)
GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "when-one-machine-is-not-enough.md"

REFUSED = {
    "Agents that hold a process": "agent coder holds a process",
    "Background jobs": "background jobs stay on one machine",
    "Closures": "a function at the top of a module",
    "`prune`": "temporal://HOST:PORT/NAMESPACE",
    "Limits": "give its activities a task queue",
    "Two people": "on Temporal one person decides",
    "Being on it, and snoozing": "none can be acknowledged or snoozed",
    "Rules for what waits": "a rule that is added decides nothing that waits",
    "Previews": "previews read on the machine that asks",
    "Uses": "on Temporal no calls are counted",
}
DIFFERENT = {
    "Streamed text": "shows ''",
    "What a run does without a journal entry": "does unknown",
    "Waits outside of operations": "succeeded",
}
"""The name of an entry in the guide -> what is said, or seen, if it is tried."""

coder = acp_agent("coder", ["opencode", "acp"])
modelled = pydantic_agent("modelled", Agent(TestModel()))


@agent
async def leading(ctx: Context) -> str:
    return await ctx.run(coder, "work")


@agent
async def with_job(ctx: Context) -> str:
    return (await ctx.call(shell, "sleep 60", background=True)).content


@agent
async def writing(ctx: Context) -> str:
    ctx.stream("The tide is low.")
    return await ctx.ask("Well?")


@tool(preview=lambda: "all of it")
async def wipe() -> str:
    return "wiped"


@tool(policy="allow", limit="browser")
async def browse() -> str:
    return "read"


@agent(limit="reviewers")
async def reviewing(ctx: Context) -> None:
    """Never begins."""


@agent
async def previewed(ctx: Context) -> str:
    return (await ctx.call(wipe)).content


@agent(tools=[wipe])
async def offering(ctx: Context) -> None: ...


@agent
async def limited(ctx: Context) -> list[str]:
    """Ask for a limit in each way."""
    said = [(await ctx.call(browse)).content]
    for hold in (ctx.model_call(limit="openai"), ctx.run(reviewing)):
        try:
            await hold if isinstance(hold, Coroutine) else await hold.__aenter__()
        except (InvalidInput, RunFailed) as refused:
            said.append(str(refused))
    return said


@agent
async def urging(ctx: Context) -> str:
    return await ctx.ask("Well?", urgency="low")


@agent
async def listening(ctx: Context) -> str:
    await ctx.send("I listen.")
    return await ctx.receive()


@agent(inactivity_timeout=0.05, first_progress_timeout=0.05, active_timeout=0.05)
async def pondering(ctx: Context, seconds: float) -> None:
    """Waits as agents should not: for no operation."""
    await anyio.sleep(seconds)
    async with ctx.model_call():
        await anyio.sleep(seconds)


async def try_process(supervisor, _) -> str:
    return (await (await supervisor.start(leading)).outcome()).cause


async def try_job(supervisor, _) -> str:
    run = await supervisor.start(with_job)
    async with run.watch_approvals() as watch:
        await supervisor.decide((await anext(watch)).id, Approve(by="ana"))
    return await run.result()


async def try_closure(supervisor, _) -> str:
    """The request of another framework's model is one."""
    return (await (await supervisor.start(modelled, "go")).outcome()).cause


async def try_prune(supervisor, folder: Path) -> str:
    command = ("prune", "--older-than", "1d")
    return await anyio.to_thread.run_sync(lambda: Cluster(supervisor.where, folder).run(*command, code=2))


async def try_limits(supervisor, _) -> str:
    """By a tool, a model call and an agent."""
    said = await (await supervisor.start(limited)).result()
    return said[0] if all("give its activities a task queue" in each for each in said) and len(said) == 3 else str(said)


async def try_quorum(supervisor, folder: Path) -> str:
    """A server does not begin."""
    two = ApproverRule(approvers=("ana", "ben"), quorum=2)
    people = People([Person(name="ana"), Person(name="ben")], [two])
    given = {"agents": {}, "channels": [], "people": people, "reminders": Reminders(), "routes": []}
    try:
        async with open_cluster(read_temporal_url(supervisor.where), MirrorFile(folder / "m.db", ""), **given):
            return "it began"
    except InvalidInput as refused:
        return str(refused)


async def try_hush(supervisor, _) -> str:
    """Of an approval that waits, in both ways; it waits on, and says how urgent the agent says it is."""
    run, said = await supervisor.start(urging), []
    async with run.watch_approvals() as watch:
        asked = await anext(watch)
    for hush in (supervisor.acknowledge([asked.id], by="ana"), supervisor.snooze([asked.id], LATE, by="ana")):
        try:
            await hush
        except InvalidInput as refused:
            said.append(str(refused))
    now = await supervisor.get_approval(asked.id)
    await supervisor.cancel(run.session)
    return said[0] if said == said[:1] * 2 and (now.status, now.urgency) == ("pending", "low") else str((said, now))


async def try_pending(supervisor, _) -> str:
    """Nothing of it is added."""
    try:
        await supervisor.add_rule(allow("wipe"), by="ana", pending=True)
    except InvalidInput as refused:
        return str(refused) if "wipe" not in {rule.tool for rule in await supervisor.find_rules()} else "added"
    return "added"


async def try_uses(supervisor, _) -> str:
    try:
        await supervisor.add_rule(allow("wipe", uses=2), by="ana")
    except InvalidInput as refused:
        return str(refused)
    return "added"


async def try_previews(supervisor, _) -> str:
    return await (await supervisor.start(previewed)).result()


async def try_stream(supervisor, _) -> str:
    """Seen while the agent waits, after it has written."""
    run = await supervisor.start(writing)
    async with run.watch_approvals() as watch:
        await anext(watch)
    async with supervisor.watch_text(run.session) as text:
        shown = await anext(text)
    await supervisor.cancel(run.session)
    return f"shows {shown.text!r}"


async def try_activity(supervisor, _) -> str:
    """Of an agent that waits for a message, after it has said so."""
    run = await supervisor.start(listening)
    while not await supervisor.get_transcript(run.session):
        await anyio.sleep(0.05)
    async with supervisor.watch_activity(run.session) as watch:
        for _ in range(20):
            (seen,) = await watch.look()
            if seen.doing[0].kind != "unknown":
                break
            await anyio.sleep(0.05)
    await supervisor.cancel(run.session)
    return f"does {seen.doing[0].kind}"


async def try_wait(supervisor, _) -> str:
    """A moment on Temporal; on one machine the watchdog ends it, however long it is."""
    seconds = 0.5 if supervisor.where.startswith("temporal") else 3600.0
    return (await (await supervisor.start(pondering, seconds)).outcome()).kind


TRIED = dict(
    zip(
        REFUSED | DIFFERENT,
        (
            *(try_process, try_job, try_closure, try_prune, try_limits, try_quorum, try_hush, try_pending),
            *(try_previews, try_uses, try_stream, try_activity, try_wait),
        ),
        strict=True,
    )
)


def test_the_guide_lists_the_same():
    """Its last section, by the bold names."""
    section = GUIDE.read_text().partition("## What is not there yet")[2]
    refused, _, different = section.partition("different")
    assert re.findall(r"^- \*\*(.+?)\*\*", refused, re.MULTILINE) == [*REFUSED]
    assert re.findall(r"^- \*\*(.+?)\*\*", different, re.MULTILINE) == [*DIFFERENT]


async def test_each_entry_is_refused_or_different_on_temporal(tmp_path):
    """All on one worker. A worker is not begun for an agent that holds a process."""
    url = await namespace()
    agents = [leading, with_job, limited, urging, previewed, modelled, writing, listening, pondering]
    with pytest.raises(InvalidInput, match="coder"):
        await run_worker(url, [coder])
    with pytest.raises(InvalidInput, match="reviewing: limits are kept by one machine"):
        await run_worker(url, [reviewing])
    with pytest.raises(InvalidInput, match="tool wipe: previews read"):
        await run_worker(url, [offering])
    with anyio.fail_after(120):
        async with working(url, agents), open_temporal(url) as supervisor:
            found = {name: await trying(supervisor, tmp_path) for name, trying in TRIED.items()}
    said = REFUSED | DIFFERENT
    assert {name: found[name] for name in said if said[name] not in found[name]} == {}


async def test_each_difference_is_one(tmp_path):
    """One machine shows the text and the wait for a message, and ends a wait for nothing."""
    async with open_supervisor(MemoryStore()) as supervisor:
        found = {name: await TRIED[name](supervisor, tmp_path) for name in DIFFERENT}
    assert [*found.values()] == ["shows 'The tide is low.'", "does message", "stalled"]
