"""Random programs on a cluster: the history of any agent is replayed in the same order by any process.

The programs are those of tests/fuzz: races, timers and scopes that cancel calls, questions, steps and sub-agents at any
depth, and clean-up that begins operations. The trees that have not ended after a while are cancelled, and messages
begin to come. So when things happen differs from run to run, and each history is another one.
"""

import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

import anyio
import pytest
from clusters import histories, replay
from fuzz_programs import answer_to, make_case
from temporal_server import namespace, working

from supervisor.core.errors import ServerUnavailable, SupervisorError
from supervisor.system.loading import load_agents
from supervisor.temporal import open_temporal
from supervisor.temporal.client import starting
from supervisor.temporal.wire import Start
from supervisor.testing import replaced

pytestmark = pytest.mark.anyio
T = TypeVar("T")
AGENTS = Path(__file__).parents[1] / "fuzz" / "fuzz_agents.py"


@contextmanager
def refused() -> Iterator[None]:
    """A tree may end, and an approval be withdrawn, while a command is on its way."""
    with suppress(SupervisorError):
        yield


async def patient(look: Callable[[], Awaitable[T]]) -> T:
    """Return what a look at all trees finds. The worker may be busy with the others for longer than a client waits."""
    with anyio.fail_after(120):
        while True:
            try:
                return await look()
            except ServerUnavailable:
                await anyio.sleep(0.2)


async def run_programs(url: str, seeds: range, seconds: float) -> list[str]:
    """Run programs until they have ended. Return their sessions."""
    decided: set[str] = set()
    async with working(url, list(load_agents(str(AGENTS)).values()), cached=2), open_temporal(url) as supervisor:

        async def decide(approval) -> None:
            if approval.id not in decided and (answer := answer_to(approval)) is not None:
                decided.add(approval.id)
                with refused():
                    await supervisor.decide(approval.id, answer)

        for seed in seeds:
            case = make_case(seed, "temporal")
            await supervisor.start(case["agent"], case["program"], session=f"program-{seed}")
        until = time.monotonic() + seconds
        while found := await patient(partial(supervisor.find_sessions, is_open=True, limit=None)):
            async with anyio.create_task_group() as tasks:
                for each in await patient(partial(supervisor.find_approvals, limit=None)):
                    tasks.start_soon(decide, each)
            for each in found:
                with refused():
                    if time.monotonic() > until and each.parent is None:
                        await supervisor.cancel(each.id)
                    elif time.monotonic() > until - seconds / 2:
                        await supervisor.send(each.id, "well?")
            await anyio.sleep(0.2)
    return [f"program-{seed}" for seed in seeds]


@pytest.mark.parametrize(
    ("seeds", "seconds", "processes", "events"),
    [
        (range(100, 104), 3.0, 2, 30),
        pytest.param(range(200), 60.0, 20, 5000, marks=pytest.mark.soak),
        pytest.param(range(200, 400), 60.0, 4, 40, marks=pytest.mark.soak),
    ],
)
async def test_histories_of_random_programs_are_replayed_in_fresh_processes(
    tmp_path, enter, monkeypatch, seeds, seconds, processes, events
):
    """With other hash seeds, and other addresses in memory: each makes the same commands in the same order. A tree goes
    on in a new workflow after so many `events`."""
    enter(replaced(starting, "Start", partial(Start, continue_after=events)))
    monkeypatch.setenv("FUZZ_FOLDER", str(tmp_path))
    monkeypatch.setenv("FUZZ_WITHOUT_LIMITS", "1")  # Temporal refuses them
    url = await namespace()
    sessions = await run_programs(url, seeds, seconds)
    found = await histories(url, *sessions)
    assert sum(len(each["events"]) for each in found.values()) > 20 * len(seeds)
    replay(found, AGENTS, processes=processes, times=1)
