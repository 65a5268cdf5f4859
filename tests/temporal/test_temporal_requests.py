"""How many requests a namespace costs: a tree from its start to its end, and a server while nothing happens."""

from collections import Counter
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
from fronts import LosingFront
from temporal_server import namespace, working
from temporalio.client import WorkflowExecutionStatus

from supervisor import Approve, Context, agent, tool
from supervisor.core.store_urls import read_temporal_url
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.temporal import open_temporal
from supervisor.temporal.mirror.mirror import Mirror
from supervisor.temporal.mirror.store import MirrorStore
from supervisor.temporal.rules import NamespaceRules
from supervisor.temporal.wire import MEMO, SIGNALS, Entries
from supervisor.testing import virtual_asyncio

TREES = 8


@tool
async def push(button: str) -> str:
    return button


@agent
async def pushing(ctx: Context, button: str) -> str:
    return (await ctx.call(push, button)).kind


@pytest.mark.anyio
async def test_a_tree_costs_its_client_three_requests_to_start_and_two_to_be_decided():
    """The rules, the start and the first entries, which come with the first task; the signal and its answer. A worker
    sends the mark, the look at the rules, and what a bare workflow takes. A busy machine may repeat a query."""
    url = await namespace()
    target, _, name = url.removeprefix("temporal://").partition("/")
    worker, client = LosingFront("none", is_back=True), LosingFront("none", is_back=True)
    with anyio.fail_after(120):
        async with worker.serving(target) as near, client.serving(target) as far:
            here, there = (f"temporal://{each}/{name}" for each in (near, far))
            async with working(here, [pushing]), open_temporal(there) as supervisor:
                begun = len(client.seen), len(worker.seen)
                for number in range(TREES):
                    await supervisor.start(pushing, "red", session=f"p{number}")
                started = len(client.seen)
                while len(found := await supervisor.find_approvals()) < TREES:
                    await anyio.sleep(0.05)
                asked = len(client.seen)
                for each in found:
                    assert (await supervisor.decide(each.id, Approve(by="ana"))).kind == "accepted"
                decided = len(client.seen)
                for number in range(TREES):
                    assert await (await supervisor.get_run(f"p{number}")).result() == "ok"
    spent = Counter(each for each in worker.seen[begun[1] :] if not each.startswith("Poll"))
    assert started - begun[0] <= 3 * TREES + 4, client.seen[begun[0] : started]
    assert decided - asked <= 2 * TREES + 4, client.seen[asked:decided]
    assert spent["RespondWorkflowTaskCompleted"] <= 3 * TREES
    assert spent["RecordActivityTaskHeartbeat"] == spent["RespondActivityTaskCompleted"] == TREES
    assert spent["DescribeWorkflowExecution"] <= TREES, "the rules"


class Looked:
    """A namespace without rules, in which a look takes a second."""

    def __init__(self) -> None:
        self.looks = 0

    def get_workflow_handle(self, _: str) -> Any:
        return self

    async def describe(self, **_: Any) -> Any:
        self.looks += 1
        await anyio.sleep(1)
        return SimpleNamespace(run_id="", history_length=0, status=WorkflowExecutionStatus.RUNNING)


def test_looks_at_the_rules_that_come_together_share_one_that_begins_after_them():
    """A look that is under way may have missed what holds now: those that come meanwhile wait for the next."""
    looked = Looked()
    rules: Any = NamespaceRules(looked, read_temporal_url("temporal://127.0.0.1:1/n"))  # type: ignore[arg-type]

    async def main() -> list[float]:
        begun, ended = anyio.current_time(), list[float]()

        async def read(after: float) -> None:
            await anyio.sleep(after)
            await rules.read()
            ended.append(round(anyio.current_time() - begun, 1))

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(read, 0 if number == 0 else 0.5)
        return ended

    backend, options = virtual_asyncio()
    assert anyio.run(main, backend=backend, backend_options=options) == [1.0] + [2.0] * 19
    assert looked.looks == 2


class Idle:
    """A namespace with trees that wait, which counts what it is asked."""

    def __init__(self, trees: int) -> None:
        self.trees = [f"t{number}" for number in range(trees)]
        self.asked = Counter[str]()
        self.workflow_service = self
        self.namespace = "n"

    async def describe_task_queue(self, *_: Any, **__: Any) -> Any:
        self.asked["workers"] += 1
        return SimpleNamespace(pollers=[])

    async def list_workflows(self, _: str) -> Any:
        self.asked["list"] += 1
        for each in self.trees:
            yield self._described(each)

    def get_workflow_handle(self, root: str, **_: Any) -> Any:
        async def describe(**_: Any) -> Any:
            self.asked["describe"] += 1
            return self._described(root)

        async def query(*_: Any, **__: Any) -> bytes:
            self.asked["query"] += 1
            return Entries(rows=[], last=0).compressed()

        return SimpleNamespace(describe=describe, query=query, run_id=None)

    def _described(self, root: str) -> Any:
        async def memo() -> Any:
            return {MEMO: {"pending": [], "left_out": []}}

        info = SimpleNamespace(memo=SimpleNamespace(fields=[SIGNALS]))
        raw = SimpleNamespace(workflow_execution_info=info, pending_workflow_task=SimpleNamespace(attempt=0))
        status, at = WorkflowExecutionStatus.RUNNING, datetime.now(UTC)
        return SimpleNamespace(
            id=root, run_id="r", status=status, memo=memo, history_length=6, raw_description=raw, start_time=at
        )


@pytest.mark.parametrize("trees", [1, 1000])
def test_a_server_of_trees_that_wait_sends_some_requests_a_minute_however_many_they_are(trees):
    """The list, a look at one of the trees, and one at the workers. No workflow is asked anything."""
    idle: Any = Idle(trees)
    named, store = read_temporal_url("temporal://127.0.0.1:1/n"), MirrorStore("m")

    async def main() -> None:
        mirror = Mirror(idle, named, store, store, Runner(store).journal)
        await mirror.follow_all()
        assert idle.asked["query"] == trees
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(mirror.run)
            await anyio.sleep(600)
            idle.asked.clear()
            await anyio.sleep(600)
            tasks.cancel_scope.cancel()

    backend, options = virtual_asyncio()
    anyio.run(main, backend=backend, backend_options=options)
    assert set(idle.asked) == {"list", "describe", "workers"}
    assert idle.asked.total() <= 17 * 10, idle.asked
