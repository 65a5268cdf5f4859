"""R8: a program ends within its bound although functions of its tools still run in threads."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys, time
import anyio
from supervisor import Context, MemoryStore, agent, open_supervisor, tool

@tool(policy="allow", timeout=0.1)
def hangs() -> None:
    time.sleep(1000)

@agent
async def caller(ctx: Context) -> None:
    print((await ctx.call(hangs)).details["reason"], flush=True)
    await ctx.receive()

async def main():
    async with open_supervisor(MemoryStore()) as supervisor:
        await (await supervisor.start(caller)).result()

anyio.run(main, backend=sys.argv[1])
"""


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_program_whose_tool_hangs_in_a_thread_ends_when_it_is_interrupted(tmp_path: Path, backend):
    """The thread is a daemon of ours, for which neither the event loop nor the interpreter waits."""
    file = tmp_path / "program.py"
    file.write_text(PROGRAM)
    with subprocess.Popen(
        [sys.executable, file, backend], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as running:
        assert running.stdout.readline() == "deadline\n"
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=30) != 0
