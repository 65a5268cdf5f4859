"""The front-ends of the table of laws (test_laws.py): how each foreign agent wants calls, in one process.

A world is what a SIGKILL leaves: a store, and what has happened. An agent makes the calls that its world wants, except
those that it has made or was denied, and stops at one gate until the test opens it. `Front.life` is one life of our
process, with the session of the agent. A front-end of another program is added by one more class.
"""

from collections import Counter
from contextlib import ExitStack, asynccontextmanager, suppress
from copy import deepcopy
from functools import partial

import anyio
from acp_inside import Inside
from dying import fork
from framework_scenes import kept_in_the_loop
from framework_table import FRAMEWORKS, ChatModel, Wanted
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.tools import StructuredTool
from langgraph.checkpoint.memory import InMemorySaver
from scenes import knowing_no_agents

from supervisor import Answer, Approve, Deny, MemoryStore, open_supervisor
from supervisor.agents.acp.permissions import TITLE
from supervisor.agents.claude.permissions import Allowed, Client, Permissions
from supervisor.agents.langgraph import langgraph_agent
from supervisor.agents.mcp_proxy.callers import Caller, Offered
from supervisor.agents.mcp_proxy.calls import Calls
from supervisor.core import events as e
from supervisor.testing import fast_disk, fresh_process

CALL = "x"
"""The call about which the moments of the table are."""
SIGNS = 50.0  # seconds
HOURS = 6 * 3600.0  # a case that hangs asks often in a longer time
BESIDE = "z"
"""A call that waits at the same time."""


class World:
    """`wants`: the calls that the agent is to make. `gate`: where it stops."""

    def __init__(self, wants, before=None):
        self.wants = [*wants]
        self.store = _Store(self) if before is None else fork(before.store)
        self.lives = []
        """What a SIGKILL after each commit of this world would leave."""
        self.effects = [] if before is None else [*before.effects]
        self.denied = [] if before is None else [*before.denied]
        self.repeats = 0 if before is None else before.repeats
        """How often a person let a part of a graph run again."""
        self.threads = InMemorySaver() if before is None else deepcopy(before.threads)
        self.gate, self.is_there, self.keeps_lives = None, False, False
        self._opened = anyio.Event()

    @property
    def left(self):
        """The calls that the agent has not made yet."""
        left = Counter(self.wants) - Counter(self.effects) - Counter(self.denied)
        return [*left.elements()]

    async def reach(self, place, command=CALL, sign=lambda: None):
        """Wait at this place if it is the gate, and give a sign of life meanwhile."""
        if place == self.gate and command == CALL:
            self.is_there = True
            while not self._opened.is_set():
                sign()
                with anyio.move_on_after(SIGNS):
                    await self._opened.wait()

    def open_gate(self):
        self.gate = None
        self._opened.set()

    def events(self, kind):
        return [row.event for row in self.store.journal("s") if isinstance(row.event, kind)]

    def lost(self, command):
        """Return how many of the calls may have happened, and have no other result."""
        asked = {each.operation: bytes(each.arguments).decode() for each in self.events(e.ToolCallRequested)}
        lost = [each for each in self.events(e.ToolCallFinished) if each.kind == "interrupted"]
        return sum(
            f'"{command}"' in asked[each.operation].replace("rm ", "")
            for each in lost
            if b'"maybe"' in bytes(each.details)
        )

    def spent(self, command):
        """Return how often a call has happened, or may have."""
        return max(self.effects.count(command), self.lost(command))


class _Store(MemoryStore):
    def __init__(self, world):
        super().__init__()
        self._world = world

    def commit(self):
        super().commit()
        if self._world.keeps_lives:
            self._world.lives.append(World(self._world.wants, self._world))


class Killed(Exception):
    """A SIGKILL of our process: nothing that it does from now on counts."""


class Life:
    """Our process as the test sees it. `run`: of the session."""

    def __init__(self, world, supervisor, command_of):
        self.world, self.supervisor, self.command_of = world, supervisor, command_of

    async def asked(self, command=CALL):
        """Return the approval of a call, when it is asked."""
        while True:
            for approval in await self.supervisor.find_approvals():
                if approval.kind == "call" and self.command_of(approval) == command:
                    return approval
            await anyio.sleep(1)

    async def approve(self, approval):
        assert (await self.supervisor.decide(approval.id, Approve(by="ana"))).kind in ("accepted", "recorded")

    async def approve_all(self, *, but):
        """Approve each call that waits, except these."""
        for approval in await self.supervisor.find_approvals():
            if self.command_of(approval) not in but:
                await self.approve(approval)

    async def until(self, condition):
        while not condition():
            await anyio.sleep(1)

    async def person(self):
        """Approve each call until it may have happened as often as it is wanted, and let graphs go on."""
        async with self.supervisor.watch_approvals() as watch:
            async for approval in watch:
                if approval.kind != "call":
                    self.world.repeats += 1
                    decision = Answer(value="go on", by="ana")
                else:
                    command = self.command_of(approval)
                    is_wanted = self.world.spent(command) < self.world.wants.count(command)
                    decision = Approve(by="ana") if is_wanted else Deny(by="ana")
                await self.supervisor.decide(approval.id, decision)

    async def die(self):
        """End the process of the agent."""

    async def over(self):
        """Wait until the agent has made all its calls."""


class Front:
    """One front-end. `wants`: the calls of its agent. `patience`: seconds after which a run that waits has left
    memory."""

    wants = (CALL,)
    backends = ("asyncio", "trio")
    cannot = ()
    """The ends that it does not know."""
    ends = True
    """Whether its session ends by itself."""
    is_one_answer = False
    """Whether its agent makes all calls at once, and others not even after a kill: what its model answers is kept."""
    patience = 90.0

    def __init__(self, name):
        self.name = name

    def __str__(self):
        return self.name

    def command_of(self, approval):
        return approval.arguments["path"]

    def enter(self, stack):
        stack.enter_context(fast_disk())
        stack.enter_context(fresh_process())

    @asynccontextmanager
    async def life(self, world):
        """Open a life; its block's end waits for all that can go on, and Killed for nothing."""
        with ExitStack() as stack:
            self.enter(stack)
            try:
                async with open_supervisor(world.store) as supervisor, self.session(world, supervisor) as life:
                    yield life
            except* Killed:
                pass

    @asynccontextmanager
    async def decided(self, world):
        """Open a life in which the call is approved and has not begun."""
        world.gate = "before"
        async with self.life(world) as life:
            await life.approve(await life.asked())
            await life.until(lambda: world.is_there)
            yield life


class Acp(Front):
    """An agent that speaks ACP. `how`: queued: it reports its calls as running before it asks for each; together: it
    asks for all at once; bare: it gives no raw input."""

    patience = 400.0

    def __init__(self, name, *, how="", wants=(CALL,)):
        super().__init__(name)
        self.how, self.wants = how, wants

    def command_of(self, approval):
        said = approval.arguments[TITLE] if self.how == "bare" else approval.arguments["command"]
        return said.removeprefix("rm ")

    @asynccontextmanager
    async def session(self, world, supervisor):
        inside = Inside(*[partial(self._turn, world)] * 20)
        life = Life(world, supervisor, self.command_of)
        run = await supervisor.start(inside.agent(passivate_after=300.0), "go", session="s")
        life.over = run.outcome

        async def die():
            if inside.lives:
                inside.die()
                await anyio.sleep(SIGNS)  # the client waits for the exit code a while

        life.die = die
        yield life

    async def _turn(self, world, agent):
        sign = partial(agent.update, "agent_thought_chunk", content={"type": "text", "text": "hm"})
        await world.reach("before", sign=sign)
        if self.how == "queued":
            for number, command in enumerate(world.left):
                agent.update("tool_call", toolCallId=f"{command}{number}", kind="execute", status="in_progress")
        async with anyio.create_task_group() as tasks:
            for number, command in enumerate(world.left):
                if self.how == "together":
                    tasks.start_soon(self._one, world, agent, command, number, sign)
                else:
                    await self._one(world, agent, command, number, sign)
        agent.say("done")

    async def _one(self, world, agent, command, number, sign):
        name = f"{command}{number}"
        said = await agent.answer(agent.ask(name, f"rm {command}", is_raw=self.how != "bare"))
        if said == "allow_once":
            world.effects.append(command)
            await world.reach("allowed", command, sign)
        elif said == "reject_once":
            world.denied.append(command)
        agent.update("tool_call_update", toolCallId=name, status="completed" if said == "allow_once" else "failed")
        await world.reach("after", command, sign)


class PermissionServer(Front):
    """Claude Code's permission server, and a client that asks for one call after the other."""

    cannot = ("passivation",)
    ends = False

    def command_of(self, approval):
        return approval.arguments["command"]

    @asynccontextmanager
    async def session(self, world, supervisor):
        life = Life(world, supervisor, self.command_of)
        server = await self._serve(world, supervisor)
        async with anyio.create_task_group() as tasks:

            def begin():
                life.scope = anyio.CancelScope()
                tasks.start_soon(self._ask, world, server, life.scope)

            async def die():
                life.scope.cancel()
                await anyio.sleep(1)
                begin()

            async def over():
                await life.until(lambda: not world.left)

            life.die, life.over = die, over
            begin()
            yield life
            await anyio.sleep(10)
            tasks.cancel_scope.cancel()

    async def _serve(self, world, supervisor):
        permissions = Permissions()
        await supervisor.start(permissions.agent, session="s")
        return permissions

    async def _ask(self, world, permissions, scope):
        with scope:
            await world.reach("before")
            while world.left:
                command, client = world.left[0], Client()
                answer = await permissions.ask("Bash", {"command": command}, client)
                try:
                    if isinstance(answer, Allowed):
                        await world.reach("allowed", command)
                        world.effects.append(command)
                    else:
                        world.denied.append(command)
                    client.written()
                finally:
                    client.is_over.set()
                await world.reach("after", command)

    @asynccontextmanager
    async def decided(self, world):
        """Its client leaves, and does not come back before the gate is opened."""
        async with self.life(world) as life:
            approval = await life.asked()
            world.gate = "before"
            await life.die()
            await life.approve(approval)
            await life.until(lambda: world.is_there)
            yield life


class Proxy(PermissionServer):
    """A proxied MCP server, and a client that makes one call after the other."""

    async def _serve(self, world, supervisor):
        async def forward(call, params):
            await world.reach("allowed", params["arguments"]["command"])
            world.effects.append(params["arguments"]["command"])
            return {"result": {"content": []}}

        calls = Calls("files", trust_hints=False, timeout=HOURS, forward=forward)
        await supervisor.start(calls.agent, "files", session="s")
        return calls

    async def _ask(self, world, calls, scope):
        with scope:
            await world.reach("before")
            while world.left:
                command, caller = world.left[0], Caller({"name": "remove"})
                reply = await calls.call("remove", {"command": command}, caller, Offered())
                if "denied" in str(reply):
                    world.denied.append(command)
                caller.written()
                await world.reach("after", command)


class Wrapped(Front):
    """An agent of a framework, whose tool needs an approval."""

    backends = ("asyncio",)
    cannot = ("death",)  # it has no process but ours
    is_one_answer = True

    def __init__(self, framework):
        super().__init__(framework.name)
        self._framework = framework

    def enter(self, stack):
        stack.enter_context(kept_in_the_loop())

    @asynccontextmanager
    async def session(self, world, supervisor):
        life = Life(world, supervisor, self.command_of)
        run = await supervisor.start(self._agent(world), "go", session="s")
        life.over = run.outcome
        yield life

    def _agent(self, world):
        async def remove(path: str) -> str:
            """Remove a file."""
            world.effects.append(path)
            await world.reach("allowed", path)
            return f"removed {path}"

        async def script(said):
            if said.results:
                await world.reach("after")
                return " and ".join(said.results)
            await world.reach("before")
            return [Wanted("remove", {"path": each}, f"c{number}") for number, each in enumerate(world.wants)]

        if self.name != "langgraph":
            tools = [self._framework.tool(remove, asks=True)]
            return self._framework.agent("worker", script, tools, inactivity_timeout=3600.0)
        graph = create_agent(
            ChatModel(script=script),
            [StructuredTool.from_function(coroutine=remove)],
            middleware=[HumanInTheLoopMiddleware({"remove": True}, edit_notice="")],
            checkpointer=world.threads,
        )
        return langgraph_agent("worker", graph, inactivity_timeout=3600.0)

    @asynccontextmanager
    async def decided(self, world):
        """The process that decides cannot run the agent."""
        with knowing_no_agents():
            async with open_supervisor(world.store) as supervisor:
                life = Life(world, supervisor, self.command_of)
                await life.approve(await life.asked())
                with suppress(Killed):
                    yield life


FRONTS = (
    Acp("ACP, queued", how="queued", wants=(CALL, BESIDE)),
    Acp("ACP, together", how="together", wants=(CALL, BESIDE)),
    Acp("ACP, single"),
    Acp("ACP, without raw input", how="bare"),
    PermissionServer("permission server"),
    Proxy("MCP proxy"),
    *map(Wrapped, FRAMEWORKS),
)
