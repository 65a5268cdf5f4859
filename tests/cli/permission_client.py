"""A stand-in for Claude Code: it starts a permission server over stdio, and makes requests as the test tells it.

    python permission_client.py COMMAND...

A line of JSON on stdin is an order; a line of JSON on stdout is what came of it.

    {"ask": {...}, "as": "a"}       -> {"as": "a", "answer": [TEXT...]}      the blocks of the answer, when it has come
    {"give_up": "a"}                -> {"as": "a", "answer": null}
    {"shell": [WORD...]}            -> {"code": 6, "err": TEXT}              as a command of the client's own shell
    end of stdin                    -> the client leaves, and closes the server's stdin
"""

import json
import os
import subprocess
import sys
import tempfile
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import preloaded
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.server.stdio import stdio_server


def tell(**what):
    print(json.dumps(what), flush=True)


class Client:
    def __init__(self, session, tasks):
        self.session = session
        self.tasks = tasks
        self.asking = {}

    async def ask(self, name, arguments):
        with self.asking.setdefault(name, anyio.CancelScope()):
            answer = await self.session.call_tool("permission", arguments)
            tell(**{"as": name, "answer": [block.text for block in answer.content]})
            return
        tell(**{"as": name, "answer": None})

    def obey(self, order):
        if "ask" in order:
            self.tasks.start_soon(self.ask, order["as"], order["ask"])
        elif "give_up" in order:
            self.asking.pop(order["give_up"]).cancel()
        else:
            done = subprocess.run(order["shell"], stdin=subprocess.DEVNULL, capture_output=True, text=True)
            tell(code=done.returncode, err=done.stderr)


async def main(command):
    async with connected(command) as streams, ClientSession(*streams) as session, anyio.create_task_group() as tasks:
        await session.initialize()
        tell(tools=[tool.name for tool in (await session.list_tools()).tools])
        client = Client(session, tasks)
        while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            client.obey(json.loads(line))
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def connected(command):
    """Give the streams of a server that runs while they are used."""
    if FORKED is None:
        async with stdio_client(
            StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
        ) as streams:
            yield streams
        return
    pid, said, told = FORKED
    async with stdio_server(anyio.wrap_file(said), anyio.wrap_file(told)) as (reads, writes):
        yield reads, writes
        await writes.aclose()
        told.close()
    os.waitpid(pid, 0)


def fork(command):
    """Start a Python command as a fork of this process, which has its imports: that saves a second of CPU."""
    from_server, to_client = os.pipe()
    from_client, to_server = os.pipe()
    if (pid := os.fork()) == 0:
        job = {"arguments": command[1:], "env": dict(os.environ), "cwd": str(Path.cwd()), "umask": 0o077}
        with tempfile.TemporaryFile("w+") as file:
            json.dump({**job, "start_new_session": True, "is_on_terminal": False}, file)
            file.seek(0)
            preloaded.end_after(preloaded.become([os.dup(file.fileno()), from_client, to_client, 2]))
    os.close(from_client)
    os.close(to_client)
    return pid, os.fdopen(from_server), os.fdopen(to_server, "w")


if __name__ == "__main__":
    FORKED = fork(sys.argv[1:]) if sys.argv[1] == sys.executable else None  # before there are threads
    anyio.run(main, sys.argv[1:])
