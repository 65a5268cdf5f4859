"""An ACP agent in this process, for tests on virtual time: each turn is an async function of the test."""

import json
import os
from contextlib import asynccontextmanager
from types import MappingProxyType

import acp.schema  # noqa: F401 # imported here: the client then uses no thread, for which a virtual clock does not wait
import anyio

from supervisor.agents.acp.agent import declare
from supervisor.agents.acp.run import Settings

OPTIONS = tuple({"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once"))


class Inside:
    """The agent: what it was sent, and how it sends. `turns`: the n-th prompt calls the n-th of them."""

    def __init__(self, *turns, can_load=True):
        self.turns = turns
        self.can_load = can_load
        self.lives = 0
        self.prompts = []
        self.heard = []
        self._answers = {}

    def agent(self, **budgets):
        budgets = {"passivate_after": None, "call_timeout": 600.0, "stop_timeout": 30.0, **budgets}
        settings = Settings(
            name="inside",
            command=("inside",),
            env=MappingProxyType({}),
            stop_timeout=budgets["stop_timeout"],
            call_timeout=budgets["call_timeout"],
        )
        return declare(settings, self.connect, __name__, budgets)

    @asynccontextmanager
    async def connect(self, settings, cwd, session, former, save):
        await save({"life": self.lives + 1})
        self.lives += 1
        process = _Process()
        life = anyio.CancelScope(shield=True)  # it is a program of its own: a cancel of the run does not reach it
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._live, process, life)
            try:
                yield process
            finally:
                life.cancel()

    async def _live(self, process, life):
        with life:
            await self._hear_all(process)

    async def _hear_all(self, process):
        self._process = process
        async with anyio.create_task_group() as tasks:
            while True:
                message = await process.to_agent.receive()
                self.heard.append(message)
                if "method" not in message:
                    self._answers.pop(message["id"]).append(message["result"]["outcome"])
                    self._ring()
                elif "id" in message:
                    tasks.start_soon(self._serve, message)

    async def _serve(self, message):
        results = {
            "initialize": {"protocolVersion": 1, "agentCapabilities": {"loadSession": self.can_load}},
            "session/new": {"sessionId": "s1"},
            "session/load": {},
        }
        if message["method"] == "session/prompt":
            self.prompts.append(message["params"]["prompt"][0]["text"])
            stop = await self.turns[len(self.prompts) - 1](self)
            results["session/prompt"] = {"stopReason": stop or "end_turn"}
        self.send(id=message["id"], result=results[message["method"]])

    _bell = None

    def _ring(self):
        bell, self._bell = self._bell, None
        if bell is not None:
            bell.set()

    def send(self, **message):
        self._process.from_agent.append({"jsonrpc": "2.0", **message})
        self._process.bell.set()

    def die(self):
        """End the process: nothing comes from it any more."""
        self._process.is_dead = True
        self._process.bell.set()

    def update(self, name, /, **fields):
        self.send(method="session/update", params={"sessionId": "s1", "update": {"sessionUpdate": name, **fields}})

    def say(self, text):
        self.update("agent_message_chunk", content={"type": "text", "text": text})

    def ask(self, call="c1", command="rm x", options=OPTIONS, *, is_raw=True, **more):
        """Send a permission request; `answer` waits for its answer. Without raw input the title says the command.
        `more`: what else it says of its call."""
        number = f"ask{len(self._answers)}-{os.urandom(4).hex()}"
        self._answers[number] = found = []
        given = {"toolCallId": call, "title": command, "kind": "execute"}
        if is_raw:
            given |= {"title": "t", "rawInput": {"command": command}}
        given |= more
        params = {"sessionId": "s1", "toolCall": given, "options": options}
        self.send(id=number, method="session/request_permission", params=params)
        return found

    async def answer(self, found):
        while not found:
            self._bell = self._bell or anyio.Event()
            await self._bell.wait()
        return found[0].get("optionId", "cancelled")

    async def asks(self, call="c1", command="rm x", options=OPTIONS):
        """Ask, wait for the answer, and end the call."""
        said = await self.answer(self.ask(call, command, options))
        status = "completed" if said == "allow_once" else "failed"
        self.update("tool_call_update", toolCallId=call, status=status)
        return said


class _Process:
    """Standard streams without a process (json_lines.Talking)."""

    def __init__(self):
        self.is_dead = False
        self.to_agent = _Queue()
        self.from_agent = []
        self.bell = anyio.Event()

    async def send(self, data):
        for line in data.splitlines():
            self.to_agent.put(json.loads(line))

    async def receive(self):
        while not self.from_agent:
            if self.is_dead:
                raise anyio.EndOfStream
            self.bell = anyio.Event()
            await self.bell.wait()
        return json.dumps(self.from_agent.pop(0)).encode() + b"\n"

    async def wait(self):
        await anyio.sleep_forever()

    def stderr_tail(self):
        return ""


class _Queue:
    def __init__(self):
        self._things = []
        self._bell = anyio.Event()

    def put(self, thing):
        self._things.append(thing)
        self._bell.set()

    async def receive(self):
        while not self._things:
            self._bell = anyio.Event()
            await self._bell.wait()
        return self._things.pop(0)
