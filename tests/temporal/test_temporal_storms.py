"""A storm: two workers are killed again and again while people decide, and new code is deployed in the middle. Each
effect happens once, and none is lost."""

import os
import signal
from collections import Counter
from contextlib import suppress
from random import Random

import anyio
import pytest
from temporalio.client import Client

from supervisor import Answer, Approve, ServerUnavailable
from supervisor.temporal import open_temporal

CODE = """
import os
from pathlib import Path

import anyio

from supervisor import Context, agent, tool


def effect(text: str) -> None:
    with Path(os.environ["EFFECTS"]).open("a") as file:
        file.write(f"{{text}}\\n")


@tool
async def removing(name: str) -> str:
    effect(name)
    return name


@tool(policy="allow", timeout=60)
async def slow(name: str) -> str:
    effect(name)
    await anyio.sleep(0.3)
    return name


async def thinking(number: int) -> int:
    return number


@agent
async def helper(ctx: Context, name: str) -> str:
    return await ctx.ask(f"May {{name}}?")


@agent
async def stormy(ctx: Context, number: int) -> list[tuple[str, str]]:
    made = []

    async def call(tool_, what: str) -> None:
        name = f"{{what}} of {{number}}"
        made.append((name, (await ctx.call(tool_, name)).kind))

    await ctx.step(thinking, number)
    await call(removing, "first")
    child = await ctx.spawn(helper, str(number))
    await call(slow, "second")
    assert await child.result() == "yes"
    await ctx.sleep(0.2)
    {deployed}
    await call(removing, "third")
    return made
"""
DEPLOYED = """if ctx.patched("a new call"):
        await call(slow, "new")"""


class Storm:
    """Two workers, which are killed at random moments. After some of the kills both get the new code."""

    def __init__(self, cluster, code, most: int) -> None:
        self.cluster, self.code, self.most = cluster, code, most
        self.kills, self.decided, self.is_over = 0, Counter(), anyio.Event()
        self.random = Random(most)

    def begin(self) -> None:
        self.workers = [self._worker() for _ in range(2)]

    def _worker(self):
        return self.cluster.worker("--lost-after", "2", agents=self.code)

    def _replace(self, number: int) -> None:
        self.workers[number].wait()
        self.workers[number] = self._worker()

    async def kill(self) -> None:
        is_deployed = False
        while self.kills < self.most and not self.is_over.is_set():
            with anyio.move_on_after(self.random.uniform(0.3, 2.0)):
                await self.is_over.wait()
            deploys = not is_deployed and self.kills >= min(self.most // 2, 6)
            victims = [0, 1] if deploys or self.kills % 8 == 3 else [self.random.randrange(2)]
            for each in victims:
                os.kill(self.workers[each].pid, signal.SIGKILL)
            self.kills += len(victims)
            if deploys:
                self.code.write_text(CODE.format(deployed=DEPLOYED))
                is_deployed = True
            for each in victims:
                await anyio.to_thread.run_sync(self._replace, each)

    async def decide(self, supervisor) -> None:
        """Decide what waits. A storm may hide a worker: what counts all the same is `recorded`."""
        for each in await supervisor.find_approvals(limit=None):
            decision = Approve(by="ana") if each.kind == "call" else Answer(by="ana", value="yes")
            with suppress(ServerUnavailable):
                self.decided[(await supervisor.decide(each.id, decision)).kind] += 1

    async def ride_out(self, trees: int) -> list:
        """Run the storm until all trees have ended. Return their outcomes."""
        target, name = self.cluster.url.removeprefix("temporal://").split("/")
        client = await Client.connect(target, namespace=name)
        ended = "WorkflowType = 'supervisor.tree' AND ExecutionStatus != 'Running'"
        async with open_temporal(self.cluster.url) as supervisor, anyio.create_task_group() as tasks:
            for number in range(trees):
                with suppress(ServerUnavailable):  # it began all the same
                    await supervisor.start("stormy", number, session=f"s{number}")
            tasks.start_soon(self.kill)
            while (await client.count_workflows(ended)).count < trees:
                await self.decide(supervisor)
                await anyio.sleep(0.2)
            self.is_over.set()
        async with open_temporal(self.cluster.url) as supervisor:
            return [await (await supervisor.get_run(f"s{number}")).outcome() for number in range(trees)]


class Gust(Storm):
    """A storm whose kills follow effects: one worker dies at the first, and both at the second, for a deploy."""

    async def kill(self) -> None:
        for begun, victims in (("first", [0]), ("second", [0, 1])):
            while not any(each.startswith(begun) for each in self.cluster.effects()):
                await anyio.sleep(0.02)
            for each in victims:
                os.kill(self.workers[each].pid, signal.SIGKILL)
            self.kills += len(victims)
            if begun == "second":
                self.code.write_text(CODE.format(deployed=DEPLOYED))
            for each in victims:
                await anyio.to_thread.run_sync(self._replace, each)


def ride(storm: Storm, trees: int) -> list[tuple[str, str]]:
    """Ride a storm out, and return the calls that were made, with their kinds. A call whose worker dies in it is
    interrupted: it may have had its effect, and never has it twice."""
    storm.code.write_text(CODE.format(deployed=""))
    storm.begin()
    outcomes = anyio.run(storm.ride_out, trees)
    effects = Counter(storm.cluster.effects())
    made = [tuple(each) for outcome in outcomes for each in outcome.value or ()]
    print(storm.kills, "kills;", dict(storm.decided), Counter(kind for _, kind in made), effects.total(), "effects")
    assert [each for each in outcomes if each.kind != "succeeded"] == []
    assert {name: count for name, count in effects.items() if count > 1} == {}
    assert [name for name, kind in made if kind == "ok" and name not in effects] == []
    assert {kind for _, kind in made} <= {"ok", "interrupted"}
    assert set(effects) <= {name for name, _ in made}
    return made


def test_kills_of_two_workers_and_a_deploy_repeat_no_effect_and_lose_none(cluster, tmp_path):
    """Two sessions, which both workers share: each goes on with what is left, and takes the new path of the code."""
    storm = Gust(cluster, tmp_path / "stormy_agents.py", most=3)
    made = ride(storm, 2)
    assert storm.kills == 3
    assert any(name.startswith("new") for name, _ in made)


@pytest.mark.soak
def test_a_storm_of_kills_and_a_deploy_repeats_no_effect_and_loses_none(cluster, tmp_path):
    """A hundred sessions, and kills at random moments."""
    storm = Storm(cluster, tmp_path / "stormy_agents.py", most=200)
    made = ride(storm, 100)
    assert storm.kills >= 10
    assert any(name.startswith("new") for name, _ in made)
