"""What the tests of the ACP client share: the scripted agent as an agent of ours, and people who answer it."""

import json
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from supervisor import Approve, Deny, MemoryStore, open_supervisor
from supervisor.agents.acp import acp_agent

FAKE = Path(__file__).with_name("fake_agent.py")
MONTH = 30 * 86_400.0  # a virtual clock is there at once if nothing happens
HANGS = 20  # seconds after which a test of real processes fails


@pytest.fixture(name="anyio_backend", params=["asyncio", "trio"])
def real_backend(request):
    """Both backends in real time: real processes do not follow a virtual clock."""
    return request.param


def ask(name="c1", command="rm x", **more):
    """Return a step that asks for a command."""
    return {"do": "ask", "id": name, "title": f"run {command}", "kind": "execute", "input": {"command": command}} | more


def say(text):
    return {"do": "say", "text": text}


class Home:
    """The folder of one scripted agent: what it is to do, and what it has done."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(exist_ok=True)

    def agent(self, *turns, budgets=None, **script):
        """Write the script, and return the agent that follows it. Each turn is a list of steps."""
        (self.folder / "script.json").write_text(json.dumps({"turns": turns, **script}))
        return self.found(**budgets or {})

    def found(self, **budgets):
        """Return the agent that follows the script that is there."""
        command = [sys.executable, "-S", str(FAKE), str(self.folder / "script.json")]
        return acp_agent("fake", command, env={"FAKE_AGENT_HOME": str(self.folder)}, **budgets)

    def lines(self, name):
        file = self.folder / name
        return file.read_text().splitlines() if file.exists() else []

    @property
    def effects(self):
        return self.lines("effects")

    @property
    def pids(self):
        return [int(line) for line in self.lines("started")]

    @property
    def living(self):
        return [pid for pid in self.pids if _lives(pid)]

    @property
    def heard(self):
        return [json.loads(line)["message"] for line in self.lines("heard")]

    @property
    def prompts(self):
        """The texts of the prompts that the agent was sent, in all its lives."""
        found = [each["params"]["prompt"] for each in self.heard if each.get("method") == "session/prompt"]
        return ["".join(part["text"] for part in prompt) for prompt in found]

    @property
    def outcomes(self):
        """The answers to its permission requests."""
        found = [each["result"]["outcome"] for each in self.heard if "outcome" in each.get("result", {})]
        return [outcome.get("optionId", outcome["outcome"]) for outcome in found]


def _lives(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture(name="home")
def new_home(tmp_path):
    """The home of an agent none of whose processes outlives the test."""
    home = Home(tmp_path / "home")
    yield home
    assert home.living == []


@asynccontextmanager
async def opened(store=None, **options):
    with anyio.fail_after(HANGS):
        async with open_supervisor(MemoryStore() if store is None else store, **options) as supervisor:
            yield supervisor


async def asked(supervisor, count=1):
    """Wait until this many approvals are pending, and return them in the order in which they were asked."""
    found = {}
    with anyio.fail_after(MONTH):
        async with supervisor.watch_approvals() as watch:
            while len(found) < count:
                approval = await anext(watch)
                found[approval.id] = approval
    return list(found.values())


async def allow(supervisor, approval):
    assert (await supervisor.decide(approval.id, Approve(by="ana"))).kind == "accepted"


async def deny(supervisor, approval, reason=None):
    assert (await supervisor.decide(approval.id, Deny(by="ana", reason=reason))).kind == "accepted"


def events(store, session, kind=object):
    """Return a session's events of a kind, in order."""
    return [row.event for row in store.journal(session) if isinstance(row.event, kind)]


def ran_at_most_once(home):
    assert len(home.effects) == len(set(home.effects)), home.effects
