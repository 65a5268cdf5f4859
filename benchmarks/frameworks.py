"""What does it cost to wrap an agent of a framework, in durable commits of the same disk, and in memory?

Needs the extras pydantic-ai, openai-agents and langgraph, and langgraph-checkpoint-sqlite, so it runs only by its name:
`python -m benchmarks frameworks`. Models are the frameworks' own doubles, without a network. Both sides make the same
requests, and the same calls of a tool that does nothing. The bare side keeps nothing; a bare graph has its checkpoints.
`--peers` adds the same Pydantic AI agent on its DBOS engine.
"""

from __future__ import annotations

import gc
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, TypedDict

import agents
import agents.testing
import anyio
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from pydantic_ai import Agent
from pydantic_ai.messages import ToolReturnPart
from pydantic_ai.models.function import DeltaToolCall, FunctionModel

from benchmarks.measure import Report, in_new_process, interleave, scratch
from benchmarks.peers import environment, measured
from benchmarks.scenes import commit, plain_sqlite
from supervisor import AgentSpec, Answer, open_supervisor
from supervisor.agents.langgraph import langgraph_agent
from supervisor.agents.openai_agents import openai_agent
from supervisor.agents.pydantic_ai import pydantic_agent

FOREVER = 1e9
QUIET = agents.RunConfig(tracing_disabled=True)


async def nothing(number: int) -> str:
    """Do nothing."""
    return "nothing"


def pydantic(calls: int, *, asks: bool = False) -> Agent[None, str]:
    """Return an agent whose model makes so many calls, one for each request."""

    async def answer(messages: Any, info: Any) -> Any:
        done = sum(isinstance(part, ToolReturnPart) for message in messages for part in message.parts)
        if done < calls:
            yield {0: DeltaToolCall(name="nothing", json_args=json.dumps({"number": done}), tool_call_id=f"c{done}")}
        else:
            yield "done"

    agent = Agent(FunctionModel(stream_function=answer))
    agent.tool_plain(requires_approval=asks)(nothing)
    return agent


def openai(calls: int, *, asks: bool = False) -> agents.Agent[Any]:
    """The same with the OpenAI Agents SDK."""

    def answer(call: Any) -> Any:
        done = sum(item.get("type") == "function_call_output" for item in call.input)
        if done < calls:
            return [agents.testing.function_call("nothing", {"number": done}, call_id=f"c{done}")]
        return [agents.testing.assistant_message("done")]

    model = agents.testing.ScriptedModel([agents.testing.ModelStep.respond(answer)] * (20_000 if asks else calls + 1))
    return agents.Agent("bare", model=model, tools=[agents.function_tool(nothing, needs_approval=asks)])


async def _bare_pydantic(calls: int) -> None:
    async def drain(ctx: Any, events: Any) -> None:
        async for _ in events:
            pass

    await pydantic(calls).run("go", event_stream_handler=drain)


async def _bare_openai(calls: int) -> None:
    await agents.Runner.run(openai(calls), [{"role": "user", "content": "go"}], max_turns=calls + 1, run_config=QUIET)


def _wrapped_pydantic(calls: int, *, asks: bool = False) -> AgentSpec[[str], Any]:
    return pydantic_agent("wrapped", pydantic(calls, asks=asks))


def _wrapped_openai(calls: int, *, asks: bool = False) -> AgentSpec[[str], Any]:
    return openai_agent("wrapped", openai(calls, asks=asks), max_turns=calls + 1, run_config=QUIET)


SIDES: dict[str, tuple[Callable[[int], Awaitable[None]], Callable[..., AgentSpec[[str], Any]]]] = {
    "Pydantic AI": (_bare_pydantic, _wrapped_pydantic),
    "OpenAI Agents": (_bare_openai, _wrapped_openai),
}


GRAPH = "LangGraph"
DBOS = "Pydantic AI: on its DBOS engine"


class State(TypedDict, total=False):
    note: str
    answer: str


async def ask(state: State) -> State:
    return {"answer": interrupt(state["note"])}


def graph(saver: AsyncSqliteSaver) -> Any:
    """Return a graph that asks one question."""
    return StateGraph(State).add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=saver)


def run_with_peers(smoke: bool) -> dict[str, Any]:
    return run(smoke, has_peers=True)


def run(smoke: bool, *, has_peers: bool = False) -> dict[str, Any]:
    report = Report()
    calls, waiting, repetitions = (5, 20, 1) if smoke else (40, 1_000, 3)
    with scratch() as folder:
        sides: dict[str, Any] = {"commit": partial(_commit, folder)}
        for name in SIDES:
            sides[f"{name}, bare"] = partial(anyio.run, _bare, name, calls)
            sides[f"{name}, wrapped"] = partial(anyio.run, _wrapped, folder, name, calls)
        sides[f"{GRAPH}, bare"] = partial(anyio.run, _bare_graphs, folder, calls)
        sides[f"{GRAPH}, wrapped"] = partial(anyio.run, _wrapped_graphs, folder, calls)
        if has_peers:
            python = environment("pydantic_ai_dbos", ("pydantic-ai-slim[dbos]==2.68.0", "dbos==3.4.0"))
            sides[DBOS] = lambda: measured(python, "pydantic_ai_dbos", "", calls, folder)["seconds"]
        found = interleave(sides, repetitions)
    report.compare(
        f"A request and its tool call, of {calls} in a run, wrapped and bare",
        "SQLite WAL synchronous=FULL; a bare run keeps nothing",
    )
    report.values("one SQLite commit", found["commit"], "ms", 1e3)
    for name in SIDES:
        _compare(report, found, name)
    if has_peers:
        report.values(DBOS, found[DBOS], "ms", 1e3)
        more = [theirs - bare for theirs, bare in zip(found[DBOS], found["Pydantic AI, bare"], strict=True)]
        report.ratio(f"{DBOS}: what it adds, in commits", more, found["commit"], unit="commits")
        report.ratio(f"{DBOS}, over wrapped", found[DBOS], found["Pydantic AI, wrapped"])
    report.compare(
        "A run of a graph with one interrupt, wrapped and bare",
        "both: AsyncSqliteSaver, each checkpoint; wrapped: also SQLite WAL synchronous=FULL",
    )
    _compare(report, found, GRAPH)
    report.compare(f"Memory of {waiting} runs that wait for a person")
    for name in (*SIDES, GRAPH):
        for how in ("live", "passivated"):
            kib = in_new_process(memory, name, waiting, how)
            report.ratio(f"{name}: {how}", [kib], unit="KiB each")
    return {"rows": report.rows}


def _compare(report: Report, found: dict[str, Any], name: str) -> None:
    bare, wrapped = found[f"{name}, bare"], found[f"{name}, wrapped"]
    report.values(f"{name}: bare", bare, "ms", 1e3)
    report.values(f"{name}: wrapped", wrapped, "ms", 1e3)
    more = [ours - theirs for ours, theirs in zip(wrapped, bare, strict=True)]
    report.ratio(f"{name}: what wrapping adds, in commits", more, found["commit"], unit="commits")


def _commit(folder: Path) -> float:
    connection = plain_sqlite(folder / f"{perf_counter()}.plain.db")
    return sorted(commit(connection) for _ in range(50))[25]


async def _bare(name: str, calls: int) -> float:
    begun = perf_counter()
    await SIDES[name][0](calls)
    return (perf_counter() - begun) / calls


async def _wrapped(folder: Path, name: str, calls: int) -> float:
    agent = _named(SIDES[name][1](calls))
    async with open_supervisor(folder / f"{perf_counter()}.db") as supervisor:
        begun = perf_counter()
        await (await supervisor.start(agent, "go")).result()
        return (perf_counter() - begun) / calls


async def _bare_graphs(folder: Path, count: int) -> float:
    async with AsyncSqliteSaver.from_conn_string(str(folder / f"{perf_counter()}.threads.db")) as saver:
        bare = graph(saver)
        begun = perf_counter()
        for number in range(count):
            config: Any = {"configurable": {"thread_id": f"t{number}"}}
            await bare.ainvoke({"note": "go"}, config, durability="sync")
            await bare.ainvoke(Command(resume="yes"), config, durability="sync")
        return (perf_counter() - begun) / count


async def _wrapped_graphs(folder: Path, count: int) -> float:
    async with AsyncSqliteSaver.from_conn_string(str(folder / f"{perf_counter()}.threads.db")) as saver:
        agent = _named(langgraph_agent("wrapped", graph(saver), input=lambda text: {"note": text}))
        async with open_supervisor(folder / f"{perf_counter()}.db") as supervisor:
            begun = perf_counter()
            for _ in range(count):
                run = await supervisor.start(agent, "go")
                async with run.watch_approvals() as watch:
                    async for question in watch:
                        await supervisor.decide(question.id, Answer(value="yes", by="ana"))
                await run.result()
            return (perf_counter() - begun) / count


def _named(agent: AgentSpec[[str], Any]) -> AgentSpec[[str], Any]:
    """Give an agent a name in this module: a store on disk refuses one that no later process could find."""
    globals()["measured_agent"] = agent
    return agent


def memory(name: str, count: int, how: str) -> float:
    """Return the KiB of a run that waits for a person."""
    with scratch() as folder:
        return anyio.run(_memory, folder, name, count, FOREVER if how == "live" else 0.0)


@asynccontextmanager
async def _asking(folder: Path, name: str) -> AsyncIterator[AgentSpec[[str], Any]]:
    """Make an agent whose runs wait for a person."""
    if name != GRAPH:
        yield SIDES[name][1](1, asks=True)
        return
    async with AsyncSqliteSaver.from_conn_string(str(folder / "threads.db")) as saver:
        yield langgraph_agent("wrapped", graph(saver), input=lambda text: {"note": text})


class _Left(Exception):
    """Leaves a supervisor without waiting for its runs."""


async def _memory(folder: Path, name: str, count: int, passivate_after: float) -> float:
    kib = 0.0
    async with _asking(folder, name) as made:
        agent = _named(made)
        try:
            async with open_supervisor(folder / "state.db", passivate_after=passivate_after) as supervisor:
                # Runs that have left memory leave their pages to the allocator, for as many runs as began together.
                before = await _resident_with(supervisor, agent, count if passivate_after == 0.0 else 20)
                kib = (await _resident_with(supervisor, agent, count) - before) / count
                raise _Left
        except _Left:
            return kib


async def _resident_with(supervisor: Any, agent: AgentSpec[[str], Any], more: int) -> int:
    """Start more runs, wait until all wait for a person, and return the KiB of the process."""
    waited = len((await supervisor.find_approvals(limit=None)).items) + more
    for _ in range(more):
        await supervisor.start(agent, "go")
    while len((await supervisor.find_approvals(limit=None)).items) < waited:
        await anyio.sleep(0.05)
    await anyio.sleep(1)
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))
