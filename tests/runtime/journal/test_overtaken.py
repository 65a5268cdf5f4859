"""A store may say that another process was faster: then the plans run again, and their callers learn nothing of it."""

import random

import anyio
import pytest

from supervisor import Approve, Context, MemoryStore, agent, open_supervisor, tool
from supervisor.seam.store import Overtaken

pytestmark = pytest.mark.anyio


class OftenOvertaken(MemoryStore):
    """Loses every other commit, by chance, to a process that is faster."""

    def __init__(self, seed):
        super().__init__()
        self._chance, self.lost = random.Random(seed), 0

    def commit(self):
        if self._chance.random() < 0.5:
            self.lost += 1
            raise Overtaken("another process was faster")
        super().commit()


@pytest.mark.parametrize("seed", range(5))
async def test_plans_that_are_overtaken_run_again_and_each_effect_is_once(seed):
    """Every session ends well, although half of all commits are lost, and no call is made twice or left out."""
    done, store = [], OftenOvertaken(seed)

    @tool(policy="allow")
    async def allowed(name: str) -> str:
        done.append(name)
        return name

    @tool(policy="ask")
    async def asked(name: str) -> str:
        done.append(name)
        return name

    @agent
    async def works(ctx: Context, name: str) -> str:
        await ctx.call(allowed, f"{name} allowed")
        await ctx.sleep(1)
        return str((await ctx.call(asked, f"{name} asked")).kind)

    async with open_supervisor(store) as supervisor:
        runs = [await supervisor.start(works, str(number)) for number in range(6)]
        with anyio.fail_after(60):
            while len(pending := await supervisor.find_approvals()) < len(runs):
                await anyio.sleep(0.1)
            for approval in pending:
                await supervisor.decide(approval.id, Approve(by="ada"))
            ends = [await run.outcome() for run in runs]
    assert {end.kind for end in ends} == {"succeeded"}
    assert store.lost > 5
    assert sorted(done) == sorted(f"{number} {how}" for number in range(6) for how in ("allowed", "asked"))
