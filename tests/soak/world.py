"""The soak's world, a program of its own: `python world.py STORE EFFECTS BACKEND SEED LIVES SECONDS`.

It starts root agents with sub-agents until told to stop, decides their calls, cancels some, lets some stall, and writes
every effect to a file of its own, before the effect counts. It may be killed at any moment.
"""

import json
import os
import random
import sys
import time
from pathlib import Path

import anyio

from supervisor import Approve, Context, Deny, agent, open_supervisor, tool

STORE, EFFECTS, BACKEND, SEED, LIVES, SECONDS = sys.argv[1:]


def note_effect(name: str) -> None:
    with Path(EFFECTS).open("a") as file:
        file.write(name + "\n")
        file.flush()
        os.fsync(file.fileno())


@tool
async def once(name: str) -> str:
    """Record an effect that must never happen twice."""
    note_effect(name)
    return name


@agent(inactivity_timeout=0.5)
async def worker(ctx: Context, name: str) -> str:
    """Ask twice. One in seven workers then becomes silent."""
    kinds = [(await ctx.call(once, f"{name}.{number}")).kind for number in range(2)]
    if int(name.rpartition("-")[2]) % 7 == 0:
        await anyio.sleep_forever()
    return ",".join(kinds)


@agent(inactivity_timeout=3600)
async def manager(ctx: Context, name: str) -> list[str]:
    """Have some sub-agents, and report how each of them ended."""
    children = [await ctx.spawn(worker, f"{name}-{number}") for number in range(8)]
    return [(await child.outcome()).kind for child in children]


def signs() -> dict[str, float]:
    """Return what must stay flat: descriptors, memory, and the size of the store's log."""
    status = Path("/proc/self/status").read_text()
    (resident,) = (int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
    log = Path(f"{STORE}-wal")
    return {
        "descriptors": len(list(Path("/proc/self/fd").iterdir())),
        "resident": resident,
        "log": log.stat().st_size if log.exists() else 0,
    }


async def main() -> None:
    chance = random.Random(f"{SEED} {LIVES}")
    async with open_supervisor(STORE, passivate_after=0.5) as supervisor:
        await supervisor.resume_all()
        until = time.monotonic() + float(SECONDS)
        started = len([view for view in await supervisor.find_sessions() if view.parent is None])
        while time.monotonic() < until:
            pending = await supervisor.find_approvals()
            if len(pending) < 200:
                await supervisor.start(manager, f"m{started}", session=f"m{started}")
                started += 1
            for approval in chance.sample(pending, min(20, len(pending))):
                deny = chance.random() < 0.2
                await supervisor.decide(approval.id, Deny(by="a", reason="no") if deny else Approve(by="a"))
            if chance.random() < 0.05 and pending:
                await supervisor.cancel(chance.choice(pending).session, reason="soak")
            print(json.dumps(signs()), flush=True)
            await anyio.sleep(0.01)
        while pending := await supervisor.find_approvals():
            for approval in pending:
                await supervisor.decide(approval.id, Approve(by="a"))
            await anyio.sleep(0.01)
        while await supervisor.find_sessions(is_open=True):  # what is silent stalls by itself
            await anyio.sleep(0.05)
        print(json.dumps(signs()), flush=True)


if __name__ == "__main__":
    anyio.run(main, backend=BACKEND)
