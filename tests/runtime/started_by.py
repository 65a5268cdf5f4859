"""A program that starts an owner of a tree through a pipe, and then decides in a shell of its own. Prints the result.

    python started_by.py STORE [WRAPPER...]

The owner guards the program that started it, as a permission server does.
"""

import subprocess
import sys

OWNER = """
import sys, anyio
from supervisor import agent, open_supervisor, tool
from supervisor.system.inside import guard_starter

@tool
async def deploy() -> str:
    return "done"

@agent
async def asking(ctx) -> None:
    await ctx.call(deploy)

async def main():
    async with open_supervisor(sys.argv[1]) as supervisor:
        run = await supervisor.start(asking, session="s")
        async with run.watch_approvals() as watch:
            print((await anext(watch)).id, flush=True)
            sys.stdin.read()
            await run.cancel()

guard_starter()
anyio.run(main)
"""
DECIDE = """
import sys, anyio
from supervisor import Approve, NotEntitled, open_supervisor

async def main():
    async with open_supervisor(sys.argv[1]) as supervisor:
        try:
            await supervisor.decide(sys.argv[2], Approve(by="eve"))
        except NotEntitled:
            print("refused")
        else:
            print("approved")

anyio.run(main)
"""


def main(store, *wrapper):
    command = [*wrapper, sys.executable, "-c", OWNER, store]
    owner = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    approval = owner.stdout.readline().strip()
    done = subprocess.run(["sh", "-c", '"$@"; true', "sh", sys.executable, "-c", DECIDE, store, approval])
    owner.communicate()
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
