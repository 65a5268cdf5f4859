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

import anyio
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client


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
    server = StdioServerParameters(command=command[0], args=command[1:], env=dict(os.environ))
    async with stdio_client(server) as streams, ClientSession(*streams) as session, anyio.create_task_group() as tasks:
        await session.initialize()
        tell(tools=[tool.name for tool in (await session.list_tools()).tools])
        client = Client(session, tasks)
        while line := await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            client.obey(json.loads(line))
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main, sys.argv[1:])
