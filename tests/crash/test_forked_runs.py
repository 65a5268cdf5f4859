"""Code of a user forks, and its child comes back into ours: the child ends, and the parent's run goes on."""

import sys

import preloaded
import pytest

PROGRAM = """
import os, sys
from pathlib import Path
import anyio
from supervisor import Context, MemoryStore, agent, open_supervisor, tool

backend, where, how, store = sys.argv[1:]

async def forks() -> str:
    if os.fork() == 0:
        if how == "exits":
            sys.exit(3)
        if how == "fails":
            raise OSError("in the child")
        if how == "waits":
            await anyio.sleep(0.05)
        return "child"
    await anyio.sleep(0.2)
    return "parent"

@tool(policy="allow")
async def fork_tool() -> str:
    return await forks()

@tool(policy="allow")
async def effect(n: int) -> int:
    with Path("effects").open("a") as file:
        file.write(f"{n}\\n")
    await anyio.sleep(0.01)
    return n

@agent
async def worker(ctx: Context) -> str:
    if where == "agent":
        who = await forks()
    elif where == "step":
        who = await ctx.step(forks)
    else:
        who = (await ctx.call(fork_tool)).content
    for n in range(5):
        await ctx.call(effect, n)
    return who

async def main() -> None:
    async with open_supervisor(MemoryStore() if store == "memory" else "state.db") as supervisor:
        print(await (await supervisor.start(worker, session="s")).result())

anyio.run(main, backend=backend)
"""


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("how", ["returns", "exits", "fails", "waits"])
@pytest.mark.parametrize("where", ["tool", "step", "agent"])
def test_a_forked_copy_of_a_run_has_no_effect_and_does_not_hold_its_parent_up(tmp_path, backend, where, how, store):
    """It shares the parent's event loop in the kernel, so it must not even end in an orderly way."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, "program.py", backend, where, how, store]
    done = preloaded.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, "parent\n"), done.stderr
    assert (tmp_path / "effects").read_text().split() == list("01234")
