"""What type checkers must refuse: mypy and pyright report the marked lines and no other (test_typing.py)."""

from datetime import UTC, datetime

from api import Order, add, caller, charge, cleaner, clock, fetch, is_risky, janitor, look_up, optional, remove

from supervisor import Approve, Context, Deny, Supervisor, ToolCall, agent, open_remote, open_supervisor, tool
from supervisor.channels import Channel, Terminal
from supervisor.tools import shell


async def wrong_sub_agents(ctx: Context) -> None:
    await ctx.spawn(cleaner, 3)  # error: the input's type
    await ctx.spawn(cleaner)  # error: no input
    await ctx.spawn(cleaner, "/a", "/b")  # error: two inputs
    await ctx.spawn(cleaner, dir="/a")  # error: another name
    await ctx.spawn(cleaner, 3, cwd="/a")  # error: the input's type
    await ctx.spawn(cleaner, "/a", cwd=3)  # error: a folder is a text
    await ctx.report("shout", "hello")  # error: no kind of report
    await ctx.spawn(clock, 3)  # error: it takes none
    await ctx.spawn(add, 3)  # error: a tool is no agent
    await ctx.run(janitor, ["/a", 3])  # error: an item's type
    number: int = await ctx.run(cleaner, "/a")  # error: the result's type
    child = await ctx.spawn(cleaner, "/a")
    number = await child.result()  # error: the result's type
    number = (await child.outcome()).value  # error: the value's type
    print(number)


async def wrong_calls(ctx: Context) -> None:
    await ctx.call(shell, cmd="ls")  # error: another name
    await ctx.call(shell, 3)  # error: the argument's type
    await ctx.call(add, "3")  # error: the argument's type
    await ctx.call(add)  # error: no argument
    await ctx.call(add, 1, 2, 3)  # error: too many
    await ctx.call(cleaner, dir="/a")  # error: another name
    await ctx.call(look_up, "UTC")  # error: a function is no tool
    await ctx.call(charge, "a")  # error: the argument's type, behind the context
    await ctx.call(remove, "/a", force="yes")  # error: the argument's type
    await ctx.call(ToolCall("1", "add", {"a": 1}), a=1)  # error: a ToolCall holds its arguments
    ToolCall("1", "add", [1])  # error: arguments have names
    ToolCall("1", add, {})  # error: a model says a name
    body: bytes = (await ctx.call(fetch, "http://a")).value  # error: None, where the call was not ok
    await ctx.step(look_up, 3)  # error: the argument's type
    text: str = await ctx.step(look_up, "UTC")  # error: the result's type
    await ctx.sleep("3")  # error: seconds are a number
    heard: int = await ctx.receive()  # error: a message is text
    ctx.move_on_after()  # error: no seconds
    print(body, text, heard)


async def wrong_starts(supervisor: Supervisor) -> None:
    await supervisor.start(janitor, [3])  # error: the input's type
    await supervisor.start(janitor, "/a", session="a")  # error: the input's type
    await supervisor.start(janitor)  # error: no input
    await supervisor.start(clock, 3)  # error: it takes none
    await supervisor.start(optional, "a")  # error: the input's type
    await supervisor.start(janitor, ["/a"], ["/b"])  # error: two inputs
    await supervisor.start(janitor, ["/a"], sesion="a")  # error: misspelt
    await supervisor.start(add, 3)  # error: a tool is no agent
    text: str = await (await supervisor.start(janitor, ["/a"])).result()  # error: the result's type
    await supervisor.send("a", 3)  # error: a message is text
    await supervisor.decide("id", "approve")  # error: a decision is a value
    await supervisor.decide("id", Approve())  # error: nobody decides
    await supervisor.decide("id", Deny(by="ana", scope="ever"))  # error: no such scope
    async with open_supervisor("state.db", channels=[Terminal]) as opened:  # error: a class is no channel
        await opened.start(caller, Order("a"))  # error: it takes none
    print(text)


@tool(policy=is_risky)  # error: the policy takes other arguments
async def other_arguments(number: int) -> None: ...


@tool(secret=[3])  # error: parameters' names
async def no_name(token: str) -> None: ...


@agent(tools=[look_up])  # error: a function is no tool
async def wrong_tools(ctx: Context) -> None: ...


@tool(policy="maybe")  # error: allow, ask, deny, or a callable
async def no_such_rule(number: int) -> None: ...


@agent  # error: not async
def blocking_agent(ctx: Context) -> None: ...


@agent(inactivity_timeout="60")  # error: seconds are a number
async def no_seconds(ctx: Context) -> None: ...


@agent  # error: no context
async def no_context() -> None: ...


async def wrong_seam(s: Supervisor) -> None:
    await s.decide("a", "yes")  # error: a decision, and no word
    await s.find_sessions(status="idle")  # error: one of the statuses
    await s.get_session("s").outcome  # error: it is not awaited
    async with open_remote("https://agents.example") as remote:  # error: a token
        await remote.prune(datetime.now(UTC))  # error: only next to a store


class Silent(Channel):
    name = "silent"

    async def post(self, approval: str, card: str | None) -> str:  # error: an approval
        return approval
