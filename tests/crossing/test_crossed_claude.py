"""What waits in the recorded store `claude` goes on: Claude Code asks for the same calls again, and is answered."""

import json
import subprocess
import sys
import time

import preloaded
import pytest
from crossed import CROSSINGS, opened, unpacked
from recorded_claude import REQUESTS

from supervisor import Approve

pytestmark = pytest.mark.anyio
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "claude-code", "version": "1"}}


@pytest.fixture
def anyio_backend():
    """The server is a process of its own; this is the backend of the person."""
    return "asyncio"


class Server:
    """`supervisor mcp --permissions`, and a client of its standard input and output."""

    def __init__(self, path):
        command = [
            sys.executable,
            "-m",
            "supervisor",
            "mcp",
            "--permissions",
            "--session",
            "claude",
            "--store",
            str(path),
        ]
        pipe = subprocess.PIPE
        self.process = preloaded.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd="/")
        self.answers = {}
        self.tell(id=0, method="initialize", params=HELLO)
        self.hear(0)
        self.tell(method="notifications/initialized")

    def tell(self, **message):
        print(json.dumps({"jsonrpc": "2.0", **message}), file=self.process.stdin, flush=True)

    def hear(self, number):
        """Return the result of a request, when it has come."""
        while number not in self.answers:
            line = self.process.stdout.readline()
            assert line, self.process.stderr.read()
            message = json.loads(line)
            self.answers[message.get("id")] = message.get("result")
        return self.answers[number]

    def ask(self, number, tool):
        given = {"tool_name": tool, "input": REQUESTS[tool], "tool_use_id": f"toolu_{number}"}
        self.tell(id=number, method="tools/call", params={"name": "permission", "arguments": given})

    def answer(self, number):
        (block,) = self.hear(number)["content"]
        return json.loads(block["text"])

    def close(self):
        self.process.stdin.close()
        assert self.process.wait(30) == 0
        self.process.stdout.close()
        self.process.stderr.close()


@pytest.mark.parametrize("crossing", CROSSINGS)
async def test_requests_keep_their_approvals_and_each_decision_is_used_once(crossing, tmp_path):
    """What was decided meanwhile is answered at once; what waits has the same approval; what is asked again, a new
    one."""
    path = unpacked(crossing, "claude", tmp_path)
    async with opened(path) as supervisor:
        before = {each.tool: each.id for each in await supervisor.find_approvals()}
        assert before.keys() == {"Bash", "AskUserQuestion"}
        server = Server(path)
        for number, tool in enumerate(REQUESTS, start=1):
            server.ask(number, tool)
        assert server.answer(3) == {"behavior": "allow", "updatedInput": REQUESTS["Write"]}
        assert (server.answer(4)["behavior"], "not today" in server.answer(4)["message"]) == ("deny", True)
        assert {each.tool: each.id for each in await supervisor.find_approvals()} == before
        for tool, approval in before.items():
            assert (await supervisor.decide(approval, Approve(by="ana"))).is_accepted
            number = [*REQUESTS].index(tool) + 1
            assert server.answer(number) == {"behavior": "allow", "updatedInput": REQUESTS[tool]}
        server.ask(5, "Bash")
        while not (again := await supervisor.find_approvals()):
            time.sleep(0.01)
        assert again[0].id != before["Bash"]
        server.close()
