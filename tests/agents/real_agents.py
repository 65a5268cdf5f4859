"""Real coding agents for tests: OpenCode, Codex, Claude Code and Gemini CLI, whose model is coding_model.py.

CI installs the first three in .peers/agents. They run in a network namespace that has the loopback only, so nothing is
sent anywhere; that takes root on Linux. Each test has a namespace and a home folder of its own.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import preloaded
import pytest
from how_to import PAGES, without_sandbox

from supervisor import MemoryStore, open_supervisor
from supervisor.agents.acp import acp_agent

PEERS = Path(__file__).parents[2] / ".peers"
PROGRAMS = {
    "opencode": PEERS / "agents/node_modules/opencode-linux-x64/bin/opencode",
    "codex-acp": PEERS / "agents/node_modules/@zed-industries/codex-acp-linux-x64/bin/codex-acp",
    "claude": PEERS / "agents/node_modules/@anthropic-ai/claude-code-linux-x64/claude",
    "gemini": PEERS / "gemini/node_modules/@google/gemini-cli/bundle/gemini.js",
}
HANGS = 120  # seconds: OpenCode starts in 3 on an idle machine, and in 20 on a busy one
LEFT_OUT = {
    "OPENCODE_DISABLE_AUTOUPDATE": "1",
    "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
    "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    "OPENCODE_DISABLE_MODELS_FETCH": "1",
    "OPENCODE_DISABLE_SHARE": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_TELEMETRY": "1",
    "IS_SANDBOX": "1",  # Claude Code runs as root only in a sandbox
    "GEMINI_CLI_NO_RELAUNCH": "true",  # else the process that is started is not the one that works
}


def needs(*names):
    """Skip a test without these programs, or without a namespace to run them in."""
    missing = [name for name in names if not PROGRAMS[name].exists()]
    return [
        pytest.mark.slow,
        pytest.mark.skipif(bool(missing), reason=f"not installed in .peers: {', '.join(missing)}"),
        pytest.mark.skipif(not _can_make_namespaces(), reason="no network namespace can be made here (unshare -n, ip)"),
    ]


def _can_make_namespaces():
    if any(shutil.which(program) is None for program in ("unshare", "nsenter", "ip")):
        return False
    return subprocess.run(["unshare", "-n", "true"], capture_output=True, check=False).returncode == 0


@asynccontextmanager
async def opened(store=None):
    """A supervisor for agents that take long to start."""
    with anyio.fail_after(HANGS):
        async with open_supervisor(MemoryStore() if store is None else store) as supervisor:
            yield supervisor


def script(*steps, message="please"):
    """Return a prompt that says what the model is to do."""
    return f"{message} script: {json.dumps(steps)}"


class Offline:
    """A namespace with a model in it. `project`: the folder in which agents work. `environment`: of a shell that has
    our command and those of the agents (`bin`), which know the model."""

    def __init__(self, folder: Path, port: int, pid: int) -> None:
        self.project, self.home, self.bin = folder / "project", folder / "home", folder / "bin"
        self.store = self.home / "state.db"
        self._requests = folder / "requests"
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("SUPERVISOR", "RUST"))},
            **LEFT_OUT,
            "HOME": str(self.home),
            "PATH": f"{self.bin}{os.pathsep}{os.environ['PATH']}",
            "SUPERVISOR_STORE": str(self.store),
            "MODEL_KEY": "x",
            "ANTHROPIC_API_KEY": "x",
            "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{port}",
            "GEMINI_API_KEY": "x",
            "GOOGLE_GEMINI_BASE_URL": f"http://127.0.0.1:{port}",
        }
        for name in ("project", "home/.config/opencode", "home/.codex", "home/.gemini", "bin"):
            (folder / name).mkdir(parents=True)
        for name, path in PROGRAMS.items():
            _write_program(self.bin / name, f'nsenter --net=/proc/{pid}/ns/net "{path}"')
        _write_program(self.bin / "supervisor", f'"{sys.executable}" -m supervisor')
        for name, text in _configurations(f"http://127.0.0.1:{port}/v1").items():
            (self.home / name).write_text(text)

    def start(self, program, *arguments):
        """Start a command in the project, as a shell of the environment does."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        if program == "supervisor":
            command = [sys.executable, "-m", "supervisor", *arguments]
            return preloaded.Popen(command, cwd=self.project, env=self.environment, **pipes)
        return subprocess.Popen([self.bin / program, *arguments], cwd=self.project, env=self.environment, **pipes)

    def said_by(self, *arguments):
        """Run a command of ours, and return what it prints. It must succeed."""
        with self.start("supervisor", *arguments) as command:
            try:
                out, err = command.communicate(timeout=HANGS)
            finally:
                command.kill()
        assert command.returncode == 0, (out, err)
        return out

    def approvals(self):
        """Return the ids of what waits for a person."""
        return [each["id"] for each in json.loads(self.said_by("approvals", "--json"))]

    def killed_in_an_ask(self, *arguments):
        """Start a command of ours, kill it when it asks a person, and return the id of the approval."""
        with self.start("supervisor", *arguments) as command:
            try:
                said = ""
                while (found := re.search(r"supervisor approve (\w+)", said)) is None:
                    line = command.stderr.readline()
                    assert line, (said, command.stdout.read())
                    said += line
            finally:
                command.kill()
        return found[1]

    @property
    def living(self):
        """The ids of the processes that know the home, so of all that were started here."""
        return [int(each.parent.name) for each in Path("/proc").glob("[0-9]*/environ") if self._knows_home(each)]

    def _knows_home(self, environ):
        try:
            return f"HOME={self.home}\0".encode() in environ.read_bytes()
        except OSError:  # it has ended, or is not ours
            return False

    @property
    def prompts(self):
        """What the model was asked, request by request, as JSON."""
        return self._requests.read_text().splitlines()

    def made(self, name):
        """Return the text of a file in the project; "" if there is none."""
        file = self.project / name
        return file.read_text() if file.exists() else ""


def _write_program(path, command):
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o755)


def _configurations(url):
    """Return the configurations that name the model, as a person's own would name a provider, by their paths."""
    return {
        ".config/opencode/opencode.json": json.dumps(
            {
                "model": "local/m",
                "provider": {
                    "local": {
                        "npm": "@ai-sdk/openai-compatible",
                        "options": {"baseURL": url, "apiKey": "x"},
                        "models": {"m": {"name": "m"}},
                    }
                },
            }
        ),
        ".codex/config.toml": f"""
            model = "gpt-5.4-mini"
            model_provider = "local"
            check_for_update_on_startup = false
            [analytics]
            enabled = false
            [model_providers.local]
            name = "local"
            base_url = "{url}"
            env_key = "MODEL_KEY"
            wire_api = "responses"
            requires_openai_auth = false
        """,
        ".gemini/settings.json": json.dumps(
            {
                "security": {"auth": {"selectedType": "gemini-api-key"}, "folderTrust": {"enabled": False}},
                "general": {"enableAutoUpdate": False},
                "model": {"name": "gemini-2.5-flash"},  # else it asks the model which model to use
                "privacy": {"usageStatisticsEnabled": False},
            }
        ),
    }


@contextmanager
def open_offline(folder):
    command = ["unshare", "-n", sys.executable, str(Path(__file__).with_name("coding_model.py")), folder / "requests"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as model:
        try:
            yield Offline(folder, int(model.stdout.readline()), model.pid)
        finally:
            model.kill()


@pytest.fixture(name="offline")
def new_offline(tmp_path):
    with open_offline(tmp_path) as offline:
        yield offline
        assert offline.living == []


def real(*programs):
    """Run a test with each of these agents."""
    return pytest.mark.parametrize("program", [pytest.param(name, marks=needs(name)) for name in programs])


@pytest.fixture(name="anyio_backend")
def one_backend(program):
    """Real agents take seconds to start, so each is run on one backend."""
    return "trio" if program == "opencode" else "asyncio"


@pytest.fixture(name="page")
def how_to_page(offline, program):
    """The page of an agent, which was configured as it says."""
    for block in PAGES[program].blocks("json"):
        (offline.project / "opencode.json").write_text(block)
    return PAGES[program]


@pytest.fixture(name="agent")
def new_agent(offline, page):
    """The agent that the command of its page starts."""
    program, *words = map(without_sandbox, page.command)
    return acp_agent("coder", [str(offline.bin / program), *words], cwd=str(offline.project), env=offline.environment)
