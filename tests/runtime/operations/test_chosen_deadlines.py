"""T3: a model chooses no deadline beyond a ceiling. Code and people may."""

import anyio
import pytest
from scenes import opened
from watching import next_of

from supervisor import Approve, Context, MemoryStore, ToolCall, agent, tool

pytestmark = pytest.mark.anyio


@tool(timeout=None, policy="allow", max_timeout=100)
async def waiting(timeout: float, background: bool = False) -> float:
    return timeout


@tool(timeout=None)
async def asking(timeout: float = 30.0) -> float:
    await anyio.sleep(0)
    return timeout


async def _kinds(ctx: Context, *calls: dict[str, object]) -> list[object]:
    found = []
    for number, arguments in enumerate(calls):
        result = await ctx.call(ToolCall(str(number), "waiting", arguments))
        found.append([result.kind, result.details["effect"]])
    return found


@agent(tools=[waiting])
async def tools_own(ctx: Context) -> list[object]:
    found = await _kinds(ctx, {"timeout": 100}, {"timeout": 101}, {"timeout": 101, "background": True})
    return [*found, (await ctx.call(waiting, 1e6)).kind]


@agent(tools=[waiting], max_timeout=10)
async def agents_own(ctx: Context) -> list[object]:
    return await _kinds(ctx, {"timeout": 10}, {"timeout": 11})


@agent(tools=[asking])
async def modest(ctx: Context) -> object:
    return (await ctx.call(ToolCall("1", "asking", {"timeout": 600}))).value


async def test_a_model_that_chooses_too_long_a_deadline_reads_an_error_and_nothing_runs():
    """Code may choose any, and so may a model for a job in the background."""
    async with opened(MemoryStore()) as supervisor:
        done, refused = ["ok", "done"], ["error", "none"]
        assert await (await supervisor.start(tools_own)).result() == [done, refused, done, "ok"]


async def test_the_ceiling_of_an_agent_counts_for_all_of_its_calls():
    """It beats that of a tool."""
    async with opened(MemoryStore()) as supervisor:
        assert await (await supervisor.start(agents_own)).result() == [["ok", "done"], ["error", "none"]]


async def test_the_card_shows_the_ceiling_and_a_person_may_go_beyond_it():
    """The deadline that the model chose is theirs to judge."""
    async with opened(MemoryStore()) as supervisor:
        run = await supervisor.start(modest)
        approval = await next_of(run.watch_approvals())
        assert "600 s" in approval.note
        await supervisor.decide(approval.id, Approve(by="ana", arguments={"timeout": 3600}))
        assert await run.result() == 3600
