"""A run of an agent survives the death of its supervisor: nothing pending is lost, and no approval is used twice."""

import anyio
import pytest
from acp_scenes import ForkingStore, allow, answer_all, ask, deny, events, new_home, opened, real_backend, say

from supervisor.core import events as e
from supervisor.core.sessions.state import replay_journal

__all__ = ["new_home", "real_backend"]
pytestmark = pytest.mark.anyio
TURN = [
    say("I begin"),
    ask("c1", "rm x", wait=False),
    ask("c2", "rm y", wait=False),
    {"do": "await", "ids": ["c1", "c2"]},
]
TURNS = [[*TURN, say("done")]] * 4


async def _carry_on(store, home, decide, script):
    """Go on after a death with what it has left. Return the approvals that were asked again, and the last word."""
    seen = []
    agent = home.agent(*TURNS, **script)
    async with opened(store) as supervisor, anyio.create_task_group() as tasks:
        tasks.start_soon(answer_all, supervisor, tasks, decide, seen)
        said = await (await supervisor.start(agent, "go", session="top")).result()
        tasks.cancel_scope.cancel()
    return seen, said


@pytest.mark.parametrize("script", [{}, {"load": "missing"}, {"resume": True}], ids=["load", "anew", "resume"])
@pytest.mark.parametrize("decide", [allow, deny])
async def test_a_death_after_any_commit_loses_nothing_and_repeats_nothing(home, decide, script):
    store = ForkingStore(home)
    await _carry_on(store, home, decide, script)
    assert len(store.lives) >= 7
    for left, its_home in store.lives:
        before = [approval for _, approval in replay_journal("top", events(left, "top")).pending_approvals()]
        seen, said = await _carry_on(left, its_home, decide, script)
        assert {*before} <= {*seen}
        begun = len(events(left, "top", e.ToolCallStarted))
        assert len(its_home.effects) <= begun
        assert said.startswith("done")
        assert its_home.living == []
