"""The daemon as its users have it: a process, HTTP, and the kill of a process that is not asked."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx
import preloaded

AGENTS = Path(__file__).with_name("served_agents.py")
TOKEN = "a-token-that-is-long-enough-for-tests"


class DaemonProcess:
    """A daemon on one store; started again it has the same address."""

    def __init__(self, folder: Path, backend: str) -> None:
        self.folder = folder
        self.store = folder / "state.db"
        self.backend = backend
        self.port = 0
        self.url = ""
        self.process: subprocess.Popen[bytes] | None = None
        self.prefix: list[str] | None = None
        """What a command begins with that is executed, such as setpriv; None: a forked interpreter will do."""

    def start(self, *options: str, **env: str) -> None:
        log = self.folder / f"log-{time.monotonic_ns()}"
        with log.open("wb") as out:
            address = ["--backend", self.backend, "--port", str(self.port)]
            self.process = self._run("serve", str(AGENTS), *address, *options, stderr=out, **env)
        self.log = log
        found = until(lambda: re.search(r"http://\S+:(\d+)", log.read_text()) or self.process.poll() is not None)
        assert not isinstance(found, bool), log.read_text()
        self.url, self.port = found[0], int(found[1])

    def command(self, *arguments: str, **env: str) -> "subprocess.Popen[bytes]":
        """Run another command of the command line on the same store."""
        return self._run(*arguments, stderr=subprocess.DEVNULL, **env)

    def _run(self, *arguments: str, stderr: Any, **env: str) -> "subprocess.Popen[bytes]":
        ours = {name: value for name, value in os.environ.items() if not name.startswith("SUPERVISOR")}
        popen = preloaded.Popen if self.prefix is None else subprocess.Popen
        return popen(
            [*(self.prefix or []), sys.executable, "-m", "supervisor", *arguments, "--store", str(self.store)],
            cwd=self.folder,
            env={name: value for name, value in {**ours, "SUPERVISOR_TOKEN": TOKEN, **env}.items() if value},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=stderr,
        )

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal, and return how the process ended."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(60)

    def client(self, token: str | None = TOKEN, **options: Any) -> httpx.Client:
        headers = {"authorization": f"Bearer {token}"} if token is not None else {}
        return httpx.Client(base_url=self.url, headers=headers, timeout=60, verify=False, **options)  # plain HTTP


def until(condition: Any, seconds: float = 60.0) -> Any:
    """Ask again until there is an answer: what is waited for happens in another process, which sends no event."""
    end = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found


def pending_of(client: httpx.Client, session: str) -> list[dict[str, Any]]:
    """Return what a session waits for, without the cards, which no session waits for."""
    found: list[dict[str, Any]] = client.get(f"/api/sessions/{session}").raise_for_status().json()["pending_approvals"]
    return [{**each, "shown": None} for each in found]
