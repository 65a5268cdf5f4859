"""A client of a proxied MCP server, which speaks JSON-RPC by lines, and what tests see of it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import preloaded

HERE = Path(__file__).parent
SMALL = str(HERE / "small_mcp_server.py")
ADD = {"text": "a"}


class McpClient:
    """A client, its proxy, and the small server. `words`: further options of the proxy. `is_direct`: the proxy is a
    child of the test, whose commands then decide nothing."""

    def __init__(self, supervisor, *words, session="s", server=None, name="files", is_direct=False, **capabilities):
        self.folder = supervisor.folder
        serve = ["-m", "supervisor", "mcp", "--before", "--name", name, *words]
        serve += [] if session is None else ["--session", session]
        relay = [] if is_direct else [sys.executable, str(HERE / "relay.py")]
        self.process = preloaded.Popen(
            [*relay, sys.executable, *serve, *(server or self.small(supervisor))],
            cwd=supervisor.folder,
            env={**supervisor.env, "PYTHONPATH": os.pathsep.join([str(Path(preloaded.__file__).parent), str(HERE)])},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        supervisor.started.append(self.process)
        self.heard = []
        self.number = 0
        hello = {"protocolVersion": "2025-11-25", "clientInfo": {"name": "c", "version": "1"}}
        self.hello = self.ask("initialize", {**hello, "capabilities": capabilities})
        self.tell(method="notifications/initialized")

    @staticmethod
    def small(supervisor):
        return ["--", sys.executable, "-S", SMALL, str(supervisor.folder)]

    def tell(self, **message):
        print(json.dumps({"jsonrpc": "2.0", **message}), file=self.process.stdin, flush=True)

    def request(self, method, params=None):
        self.number += 1
        self.tell(id=self.number, method=method, **({} if params is None else {"params": params}))
        return self.number

    def call(self, tool, arguments=ADD, **meta):
        return self.request("tools/call", {"name": tool, "arguments": arguments, **({"_meta": meta} if meta else {})})

    def hear(self, wanted):
        """Return the next message that is wanted. Others are kept."""
        for message in self.heard:
            if wanted(message):
                self.heard.remove(message)
                return message
        while True:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
            if wanted(message := json.loads(line)):
                return message
            self.heard.append(message)

    def answer(self, request):
        return self.hear(lambda message: message.get("id") == request and "method" not in message)

    def result(self, request):
        return self.answer(request)["result"]

    def ask(self, method, params=None):
        return self.answer(self.request(method, params))

    def told(self, method):
        return self.hear(lambda message: message.get("method") == method)

    def cancel(self, request, reason):
        self.tell(method="notifications/cancelled", params={"requestId": request, "reason": reason})

    def leave(self):
        self.process.stdin.close()
        self.process.stdin = None
        return self.process.wait(60)

    def made(self):
        file = self.folder / "made"
        return file.read_text().split() if file.exists() else []

    def server_heard(self, method):
        lines = (self.folder / "heard").read_text().splitlines()
        return [message for message in map(json.loads, lines) if message.get("method") == method]


def texts(result):
    return [block["text"] for block in result["content"] if block["type"] == "text"]
