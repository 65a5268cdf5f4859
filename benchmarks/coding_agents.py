"""What does a permission request of a coding agent take, and what does a run cost that waits without its agent?

The agent is in this process, so that no time of its own is measured; the client speaks ACP with it in JSON, as with a
real one. Measured are the times from its request to the card (the request and the approval are on disk), and from the
decision to its answer (the decision and `executing` are on disk), in plain durable commits.

Memory: of a run that waits for a person after a restart, when no process of the agent lives.
Durability: SQLite WAL synchronous=FULL.
"""

from __future__ import annotations

import gc
import json
import statistics
import tracemalloc
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from types import MappingProxyType
from typing import Any

import anyio

from benchmarks.measure import BACKENDS, Report, in_new_process, interleave, scratch
from benchmarks.scenes import FOREVER, Left, commit, plain_sqlite
from supervisor import AgentSpec, Approve, InvalidInput, open_supervisor
from supervisor.agents.acp.agent import declare
from supervisor.agents.acp.run import Settings
from supervisor.agents.acp.schema import load_schema
from supervisor.tools.finished import Finished

OPTIONS = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]
Latencies = tuple[list[float], list[float], list[float]]


def run(smoke: bool) -> dict[str, Any]:
    report = Report()
    try:
        anyio.run(load_schema)  # its import is not measured
    except InvalidInput as missing:
        report.compare(f"not measured: {missing}")
        return {"rows": report.rows}
    count, repetitions = (5, 1) if smoke else (300, 5)
    with scratch() as folder:
        sides = {b: partial(anyio.run, _decide, folder, count, backend=b) for b in BACKENDS}
        found = interleave(sides, repetitions)
    report.compare(f"{count} permission requests of a coding agent, one after the other", "SQLite WAL synchronous=FULL")
    for backend in BACKENDS:
        commits = [statistics.median(plain) for _, _, plain in found[backend]]
        for place, label in enumerate(("request -> card", "decision -> answer")):
            medians = [statistics.median(each[place]) for each in found[backend]]
            report.values(f"{backend}: {label}", medians, "us", 1e6)
            report.ratio(f"coding agent, {backend}: {label}", medians, commits)
    waiting = 5 if smoke else 1_000
    left = interleave({b: partial(in_new_process, measure, b, waiting) for b in BACKENDS}, 1 if smoke else 2)
    report.compare(f"{waiting} runs that wait after a restart, without a process of the agent")
    for backend in BACKENDS:
        kept = [each / 1024 for each in left[backend]]
        report.ratio(f"memory of a run whose process is gone, {backend}", kept, unit="KiB")
    return {"rows": report.rows}


async def _decide(folder: Path, count: int) -> Latencies:
    agent, plain = _Agent(count), plain_sqlite(folder / "plain.db")
    shown: list[float] = []
    decided: list[float] = []
    commits: list[float] = []
    async with open_supervisor(folder / f"{perf_counter()}.db", tune_interpreter=True) as supervisor:
        run = await supervisor.start(agent.declared(), "go")
        async with run.watch_approvals() as watch:
            for _ in range(count):
                approval = await anext(watch)
                shown.append(perf_counter())
                commits.append(commit(plain))
                decided.append(perf_counter())
                await supervisor.decide(approval.id, Approve(by="a"))
        await run.result()
    plain.close()
    to_card = [at - asked for at, asked in zip(shown, agent.asked, strict=True)]
    return to_card, [at - since for at, since in zip(agent.answered, decided, strict=True)], commits


def measure(backend: str, count: int) -> float:
    with scratch() as folder:
        return anyio.run(_wait, folder, count, backend=backend)


async def _wait(folder: Path, count: int) -> float:
    """Leave so many runs waiting, open them again, and return the bytes of each."""
    names = [f"s{number}" for number in range(count)]
    try:
        async with open_supervisor(folder / "state.db") as supervisor:
            for name in names:
                run = await supervisor.start(_Agent(1).declared(), "go", session=name)
                async with run.watch_approvals() as watch:
                    await anext(watch)
            raise Left
    except Left:
        pass
    agent = _Agent(1).declared()
    try:
        async with open_supervisor(folder / "state.db", passivate_after=FOREVER) as supervisor:
            before = _traced()
            for name in names:
                await supervisor.start(agent, "go", session=name)
            await anyio.sleep(0.5)
            raise Left((_traced() - before) / count)
    except Left as left:
        return float(left.args[0])


def _traced() -> int:
    if not tracemalloc.is_tracing():
        tracemalloc.start()
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


class _Agent:
    """Asks so many times, one after the other, and notes when it asked and was answered."""

    def __init__(self, count: int) -> None:
        self.asked: list[float] = []
        self.answered: list[float] = []
        self._count = count
        self._prompt: Any = None
        self._lines: list[bytes] = []
        self._has_line = anyio.Event()

    def declared(self) -> AgentSpec[[str], str]:
        settings = Settings(
            name="coder",
            command=("coder",),
            env=MappingProxyType({}),
            stop_timeout=30.0,
            call_timeout=600.0,
        )
        agent = declare(settings, self._connect, __name__, {"passivate_after": None})
        globals()["coder"] = agent  # a store on disk takes an agent only if a later process can find it
        return agent

    @asynccontextmanager
    async def _connect(
        self, settings: Settings, cwd: str, session: str, former: Mapping[str, Any] | None, save: Any
    ) -> AsyncIterator[_Agent]:
        await save({})
        yield self

    async def send(self, data: bytes) -> None:
        for line in data.splitlines():
            self._take(json.loads(line))

    def _take(self, message: dict[str, Any]) -> None:
        if "result" in message:
            self.answered.append(perf_counter())
            update = {"sessionUpdate": "tool_call_update", "toolCallId": f"c{len(self.asked)}", "status": "completed"}
            self._put(method="session/update", params={"sessionId": "s", "update": update})
            return self._go_on()
        results = {
            "initialize": {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}},
            "session/new": {"sessionId": "s"},
        }
        if message["method"] == "session/prompt":
            self._prompt = message["id"]
            return self._go_on()
        if "id" in message:
            self._put(id=message["id"], result=results.get(message["method"], {}))
        return None

    def _go_on(self) -> None:
        if len(self.asked) == self._count:
            return self._put(id=self._prompt, result={"stopReason": "end_turn"})
        number = len(self.asked) + 1
        given = {"command": f"make part{number}"}
        call = {"toolCallId": f"c{number}", "title": "Make it", "kind": "execute", "rawInput": given}
        params = {"sessionId": "s", "toolCall": call, "options": OPTIONS}
        self.asked.append(perf_counter())
        return self._put(id=f"ask{number}", method="session/request_permission", params=params)

    def _put(self, **message: Any) -> None:
        self._lines.append(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self._has_line.set()

    async def receive(self) -> bytes:
        while not self._lines:
            self._has_line = anyio.Event()
            await self._has_line.wait()
        return self._lines.pop(0)

    async def wait(self) -> Finished:
        await anyio.sleep_forever()
        raise AssertionError

    def stderr_tail(self) -> str:
        return ""
