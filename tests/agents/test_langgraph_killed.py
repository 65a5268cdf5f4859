"""SIGKILL of a process that runs a graph: real processes, a store and a checkpointer on disk, one person."""

import os
import signal
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypedDict

import anyio
import pytest
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt
from nest import Nests

from supervisor import Answer, Approve, NotFound, SqliteStore, open_supervisor
from supervisor.agents.langgraph import langgraph_agent
from supervisor.core import events as e

pytestmark = pytest.mark.anyio

folder = Path()
dies_at = 0
passed = 0


@pytest.fixture
def anyio_backend():
    return "asyncio"


def point():
    """Die at the n-th point at which something is about to be, or was just, written."""
    global passed
    passed += 1
    if passed == dies_at:
        os.kill(os.getpid(), signal.SIGKILL)


class Store(SqliteStore):
    def commit(self):
        point()
        super().commit()
        point()


class Saver(AsyncSqliteSaver):
    async def aput(self, *args):
        point()
        saved = await super().aput(*args)
        point()
        return saved

    async def aput_writes(self, *args):
        point()
        await super().aput_writes(*args)
        point()


def record(line, name="effects"):
    with (folder / name).open("a") as file:
        file.write(f"{line}\n")


def recorded(name="effects"):
    return (folder / name).read_text().splitlines() if (folder / name).exists() else []


class State(TypedDict, total=False):
    topic: str
    told: str


async def plan(state: State) -> State:
    record("plan")
    return {"topic": "files"}


async def review(state: State) -> State:
    told = interrupt("is it good?")
    record("review")
    return {"told": told}


async def remove(state: State) -> State:
    """Ask as the human-in-the-loop middleware does."""
    requests = [{"name": "remove", "args": {"path": path}} for path in "ab"]
    allowed = [{"action_name": "remove", "allowed_decisions": ["approve", "reject"]}]
    answer = interrupt({"action_requests": requests, "review_configs": allowed})
    for request, decision in zip(requests, answer["decisions"], strict=True):
        assert decision["type"] == "approve"
        record(f"remove {request['args']['path']}")
    return {}


@asynccontextmanager
async def open_graph():
    builder, before = StateGraph(State), START
    for node in (plan, review, remove):
        builder.add_node(node.__name__, node)
        builder.add_edge(before, node.__name__)
        before = node.__name__
    async with Saver.from_conn_string(str(folder / "threads.db")) as threads:
        yield builder.compile(checkpointer=threads)


remover = langgraph_agent(
    "remover", open_graph, input=lambda text: {"topic": text}, output=lambda values: values["told"]
)


async def answer(supervisor):
    """Allow everything, and let the graph go on."""
    async with supervisor.watch_approvals() as watch:
        async for approval in watch:
            if approval.kind == "call":
                await supervisor.decide(approval.id, Approve(by="ana"))
            elif approval.choices is None:
                await supervisor.decide(approval.id, Answer(value="yes", by="ana"))
            else:
                record(approval.question, "asked")
                await supervisor.decide(approval.id, Answer(value="go on", by="ana"))


async def live(where):
    """Run the session to its end."""
    global folder
    folder = Path(where)
    async with open_supervisor(Store(folder / "state.db")) as supervisor, anyio.create_task_group() as tasks:
        tasks.start_soon(answer, supervisor)
        outcome = await (await supervisor.start(remover, "go", session="top")).outcome()
        tasks.cancel_scope.cancel()
    return outcome


def main(job):
    """Run the session in a process of its own, which kills itself at its n-th point."""
    global dies_at
    dies_at = job["nth"]
    anyio.run(live, job["folder"])
    return 0


@pytest.fixture(scope="module")
def nests():
    found = Nests(Path(__file__))
    yield found
    found.close()


def calls(kind) -> list[Any]:
    store = SqliteStore(folder / "state.db", create=False)
    store.open()
    try:
        return [row.event.operation for row in store.journal("top") if isinstance(row.event, kind)]
    except NotFound:
        return []
    finally:
        store.close()


@pytest.mark.slow
@pytest.mark.parametrize("step", [9, pytest.param(1, marks=pytest.mark.soak)])
async def test_a_kill_around_any_write_repeats_no_node_unasked(nests, tmp_path, step):
    """T1: around each commit of the journal and each write of the checkpointer. No call is left without a result."""
    killed, nth = True, 0
    while killed:
        nth += step
        where = tmp_path / str(nth)
        where.mkdir()
        killed = nests.live("run", where, nth=nth) == -signal.SIGKILL
        outcome = await live(where)
        assert (outcome.kind, outcome.value) == ("succeeded", "yes"), outcome
        done, asked = recorded(), len(recorded("asked"))
        assert {*done} == {"plan", "review", "remove a", "remove b"}
        assert max(map(done.count, done)) <= 1 + asked, (nth, done)
        assert sorted(calls(e.ToolCallRequested)) == sorted(calls(e.ToolCallFinished))
    assert nth > 40
