"""The public face, in use. Never run: mypy and pyright, both strict, must accept every line (test_typing.py)."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, assert_type

from supervisor import (
    AgentSpec,
    Approval,
    Approve,
    ChildRun,
    Context,
    DecisionResult,
    Deny,
    MemoryStore,
    Outcome,
    Page,
    Policy,
    Run,
    SessionView,
    StepContext,
    Supervisor,
    Timer,
    ToolCall,
    ToolContext,
    ToolResult,
    ToolSpec,
    agent,
    open_supervisor,
    tool,
)
from supervisor.channels import Terminal
from supervisor.tools import shell


@dataclass
class Order:
    item: str
    count: int = 1


@tool
async def add(a: int, b: int = 1) -> int:
    return a + b


@tool(timeout=5, idempotent=True)
async def fetch(url: str) -> ToolResult[bytes]:
    return ToolResult(kind="ok", content=url, value=b"")


@tool(policy="allow")
async def charge(context: ToolContext, order: Order) -> str:
    return context.operation + order.item


def is_risky(path: str, force: bool = False) -> Policy:
    return "ask" if force or path.startswith("/") else "allow"


@tool(policy=is_risky)
async def remove(path: str, force: bool = False) -> None: ...


@tool(policy=is_risky)
async def watched(context: ToolContext, path: str, force: bool = False) -> ToolResult[int]:
    return ToolResult(kind="ok", content="", value=1)


def plain_look(zone: str) -> float:
    return len(zone)


def plain_watched_look(context: StepContext, zone: str) -> float:
    context.heartbeat()
    return len(zone)


@tool(timeout=5, max_timeout=60)
def plain_tool(number: int) -> str:
    return str(number)


@tool
def plain_result(number: int) -> ToolResult[int]:
    return ToolResult(kind="ok", content="", value=number)


async def look_up(zone: str, *, offset: int = 0) -> float:
    return float(len(zone) + offset)


async def watched_look(step: StepContext, zone: str) -> float:
    step.heartbeat()
    return float(len(step.operation + zone))


@agent(inactivity_timeout=60, max_depth=2)
async def cleaner(ctx: Context, folder: str) -> str:
    result = await ctx.call(shell, command=["find", folder, "-name", "*.tmp", "-print", "-delete"])
    assert_type(result, ToolResult[str])
    assert_type(result.kind, Literal["ok", "error", "denied", "interrupted"])
    assert_type(result.is_error, bool)
    assert_type(result.details, Mapping[str, Any])
    return result.content


@tool(policy="allow", secret=["token"])
async def fetch_private(url: str, token: str = "") -> bytes:
    return url.encode() + token.encode()


@agent(tools=[add, charge, fetch_private, shell, cleaner])
async def chatting(ctx: Context, calls: list[ToolCall]) -> list[str]:
    assert_type(chatting.tool_schemas(), list[dict[str, Any]])
    assert_type(await ctx.call(calls[0]), ToolResult[Any])
    assert_type(await ctx.call(ToolCall("1", "add", {"a": 1})), ToolResult[Any])
    assert_type((await ctx.call(fetch_private, "http://a", token="b")).value, bytes | None)
    return [(await ctx.call(call)).content for call in calls]


@agent
async def optional(ctx: Context, order: Order | None = None) -> Order:
    return order or Order("")


@agent
async def clock(ctx: Context) -> datetime:
    return await ctx.now()


@agent
async def janitor(ctx: Context, folders: list[str]) -> list[str]:
    children = [await ctx.spawn(cleaner, folder) for folder in folders]
    assert_type(children, list[ChildRun[str]])
    assert_type(await children[0].outcome(), Outcome[str])
    assert_type((await children[0].outcome()).value, str | None)
    assert_type(await children[0].result(), str)
    assert_type(await children[0].cancel("enough"), None)
    assert_type(await ctx.spawn(clock), ChildRun[datetime])
    assert_type(await ctx.run(cleaner, folder="/srv"), str)
    assert_type(await ctx.run(cleaner, "/srv", cwd="/srv"), str)
    assert_type(await ctx.spawn(clock, cwd="/srv"), ChildRun[datetime])
    assert_type(await ctx.report("call", "make", tool="shell", call="c1"), None)
    assert_type(await ctx.run(optional), Order)
    assert_type(await ctx.run(optional, Order("a")), Order)
    assert_type(await ctx.run(optional, cwd="/srv"), Order)
    assert_type(await ctx.run(optional, None, cwd="/srv"), Order)
    assert_type(await ctx.spawn(optional, cwd="/srv"), ChildRun[Order])
    return [await child.result() for child in children]


@agent
async def caller(ctx: Context) -> None:
    assert_type((await ctx.call(add, 1)).value, int | None)
    assert_type((await ctx.call(add, a=1, b=2)).value, int | None)
    assert_type((await ctx.call(fetch, "http://a")).value, bytes | None)
    assert_type((await ctx.call(charge, Order("a"))).value, str | None)
    assert_type(await ctx.call(ToolCall("1", "remove", '{"path": "/tmp/a"}')), ToolResult[Any])
    assert_type(await ctx.call(remove, "/tmp/a", force=True), ToolResult[None])
    assert_type((await ctx.call(watched, path="/tmp/a")).value, int | None)
    assert_type((await ctx.call(shell, "ls", cwd="/", env={"A": "b"}, timeout=3)).value, str | None)
    assert_type(await ctx.step(plain_look, "UTC"), float)
    assert_type(await ctx.step(plain_watched_look, "UTC"), float)
    assert_type(await ctx.call(plain_tool, 1), ToolResult[str])
    assert_type(await ctx.call(plain_result, 1), ToolResult[int])
    assert_type(await ctx.step(look_up, "UTC", offset=3), float)
    assert_type(await ctx.step(watched_look, "UTC"), float)
    assert_type(await ctx.named("request 1").step(watched_look, zone="UTC"), float)
    assert_type(await ctx.call(cleaner, folder="/a"), ToolResult[str])
    assert_type(await ctx.named("request 2").ask("Which?"), str)
    assert_type((await ctx.named("request 3").call(add, 1)).value, int | None)
    assert_type(await ctx.now(), datetime)
    assert_type(await ctx.random(), float)
    async with ctx.move_on_after(3) as timer:
        assert_type(timer, Timer)
        await ctx.sleep(1)
    async with ctx.task_group() as group, ctx.model_call():
        group.start_soon(in_a_branch, 3)
        ctx.keepalive()
    assert_type(ctx.branch("left"), Context)
    assert_type(await ctx.receive(), str)
    assert_type(await ctx.send("done"), None)
    await ctx.save({"done": [1, 2]})
    assert_type(ctx.saved, Any)
    assert_type(ctx.run_number, int)
    assert_type(ctx.is_durable, bool)


async def in_a_branch(ctx: Context, number: int) -> None:
    await ctx.call(add, number)


async def main(anybodys: AgentSpec[..., int], unknown: AgentSpec[Any, Any], some_tool: ToolSpec[[int], str]) -> None:
    async with open_supervisor("state.db", channels=[Terminal()], passivate_after=5) as supervisor:
        await serve(supervisor)
        run = await supervisor.start(janitor, ["/srv/a"], session="cleanup", requester="ana")
        assert_type(run, Run[list[str]])
        assert_type(await run.result(), list[str])
        assert_type(await run.outcome(), Outcome[list[str]])
        assert_type(await run.find_outcome(), Outcome[list[str]] | None)
        async with run.watch_approvals() as watch:
            async for approval in watch:
                assert_type(approval, Approval)
                assert_type(
                    await supervisor.decide(approval.id, Approve(by="ana", arguments={"path": "/"})), DecisionResult
                )
                await supervisor.decide(approval.id, Deny(by="ana", reason="no"))
        assert_type(await (await supervisor.start(anybodys, 3)).result(), int)
        assert_type(await (await supervisor.start(unknown, *(), session="a")).result(), Any)
    async with open_supervisor(MemoryStore(), unattended="deny") as supervisor:
        assert_type(await supervisor.start(clock), Run[datetime])


async def serve(supervisor: Supervisor) -> None:
    assert_type(await supervisor.start(janitor, []), Run[list[str]])
    assert_type(await supervisor.start(clock, session="clock", cwd="/srv"), Run[datetime])
    assert_type(await supervisor.start(optional), Run[Order])
    assert_type(await supervisor.start(optional, session="a"), Run[Order])
    assert_type(await supervisor.start(optional, None), Run[Order])
    assert_type(await supervisor.start(optional, Order("a", 3)), Run[Order])
    assert_type(await supervisor.resume("cleanup"), Run[Any])
    assert_type(await supervisor.resume_all(), list[Run[Any]])
    assert_type(await supervisor.start("janitor", ["/srv/a"]), Run[Any])
    assert_type((await supervisor.send("cleanup", "go on", by="ana")).kind, Literal["delivered", "kept", "begun"])
    assert_type(await (await supervisor.get_run("cleanup")).outcome(), Outcome[Any])
    assert_type(await supervisor.get_session("cleanup"), SessionView)
    assert_type(await supervisor.find_sessions(is_open=True), Page[SessionView])
    assert_type(await supervisor.find_approvals(pending=False), Page[Approval])
