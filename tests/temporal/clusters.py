"""A cluster as people have it: the real server, and workers and commands that are processes of their own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import msgspec
import preloaded
import temporal_server
from cluster_agents import __file__ as AGENTS  # noqa: N812 # a path

from supervisor.system.loading import load_agents
from supervisor.temporal import open_temporal

REPLAYING = str(Path(__file__).with_name("replaying.py"))


async def histories(url: str, *sessions: str) -> dict:
    """Return the histories of all workflows of sessions, as the server has them."""
    found = {}
    for session in sessions:
        found |= await temporal_server.histories(url, f'WorkflowId = "{session}"')
    return found


def replay(found: dict, agents: str | Path, *, processes: int = 2, times: int = 2, **env: str) -> None:
    """Replay histories, so many times each, in fresh processes with other hash seeds."""
    replay_files([{"agents": str(agents), "histories": found}], processes=processes, times=times, **env)


def replay_files(documents: list[dict], *, processes: int, times: int = 1, **env: str) -> None:
    """Replay what `keep_histories` has kept, in the same way."""
    given = json.dumps({"times": times, "documents": documents})
    for seed in range(processes):
        ran = subprocess.run(
            [sys.executable, REPLAYING],
            input=given.encode(),
            env={**os.environ, **env, "PYTHONHASHSEED": str(seed)},
            capture_output=True,
            timeout=600,
        )
        assert ran.returncode == 0, ran.stderr.decode()[-2000:]


class Cluster:
    """Workers and commands on one namespace. `folder` has the file of effects, and the logs."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.workers: list[subprocess.Popen] = []
        self._files: set[Path] = set()
        self._last_read: object = None
        ours = {name: value for name, value in os.environ.items() if not name.startswith("SUPERVISOR")}
        self.environment = {**ours, "EFFECTS": str(folder / "effects"), "SUPERVISOR_STORE": url}

    def worker(self, *options: str, agents: str | Path = AGENTS, **env: str) -> subprocess.Popen:
        """Start a worker, and wait until it works."""
        log = self.folder / f"worker-{len(self.workers)}"
        with log.open("wb") as out:
            process = self.start("worker", str(agents), *options, stdout=subprocess.DEVNULL, stderr=out, **env)
        self.workers.append(process)
        self._files.add(Path(agents))
        self.until(lambda: "Working for" in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        return process

    def run(self, *command: str, code: int = 0) -> str:
        """Run a command, and return its standard output."""
        process = self.start(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = process.communicate(timeout=60)
        assert process.returncode == code, (command, process.returncode, out, err)
        return out.decode() + err.decode() if code not in (0, 3) else out.decode()

    def begin(self, *command: str) -> subprocess.Popen:
        """Start a command."""
        return self.start(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def read(self, *command: str, code: int = 0):
        """Run a command, and return its JSON document."""
        self._last_read = json.loads(self.run(*command, "--json", code=code))
        return self._last_read

    def pending(self, count: int = 1) -> list[dict]:
        """Return what waits, when so much does, by arguments: of two calls at once either may be asked first."""
        found = self._read_until(lambda here: here.find_approvals(limit=None), lambda found: len(found) == count)
        return sorted(found, key=lambda each: str(each["arguments"]))

    def outcome(self, session: str, value: object = ...) -> dict:
        """Return how a session has ended, when it has; with a value, when its latest run has ended with this one."""

        def has_ended(found: list[dict]) -> bool:
            ended = next(each["outcome"] for each in found if each["id"] == session)
            return ended is not None and value in (..., ended["value"])

        found = self._read_until(lambda here: here.find_sessions(limit=None), has_ended)
        return next(each["outcome"] for each in found if each["id"] == session)

    def _read_until(self, read, condition) -> list[dict]:
        """Read with a client in this process, which costs less than commands, until a condition holds."""

        async def look() -> list[dict]:
            async with open_temporal(self.url) as supervisor:
                while True:
                    self._last_read = found = msgspec.to_builtins(list(await read(supervisor)))
                    if condition(found):
                        return found
                    await anyio.sleep(0.1)

        async def bounded() -> list[dict]:
            with anyio.move_on_after(60):
                return await look()
            raise AssertionError(f"it did not come: {self._last_read}\n{self._logs()}")

        return anyio.run(bounded)

    def effects(self) -> list[str]:
        file = self.folder / "effects"
        return file.read_text().splitlines() if file.exists() else []

    def until(self, condition) -> None:
        """Wait until a condition holds. If it never does, show what was read last, and what the workers have said."""
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end, f"it did not come: {self._last_read}\n{self._logs()}"
            time.sleep(0.05)

    def _logs(self) -> str:
        return "\n".join(f"{log.name}: {log.read_text()[-2000:]}" for log in sorted(self.folder.glob("worker-*")))

    def replay(self, *sessions: str, processes: int = 2, times: int = 2) -> None:
        """Replay sessions in fresh processes."""
        found = anyio.run(histories, self.url, *sessions)
        replay(found, AGENTS, processes=processes, times=times, **self.environment)

    def kill(self) -> None:
        """Kill all workers."""
        for process in self.workers:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
        self.workers.clear()
        is_ours = all(file.is_relative_to(temporal_server.ROOT) for file in self._files)
        if (kept := os.environ.get("KEEP_HISTORIES")) and self._files and is_ours:  # others change during the test
            agents = [spec for file in sorted(self._files) for spec in load_agents(str(file)).values()]
            anyio.run(temporal_server.keep_histories, Path(kept), self.url, agents)

    def start(self, *command: str, stdout, stderr, **env: str) -> subprocess.Popen:
        return preloaded.Popen(
            [sys.executable, "-m", "supervisor", *command],
            cwd=self.folder,
            env={**self.environment, **env},
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
        )
