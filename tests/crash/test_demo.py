"""The main job, as the README shows it: a real process, a real SIGKILL, both backends."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import preloaded
import pytest

pytestmark = pytest.mark.parametrize("backend", ["asyncio", "trio"])


class Demo:
    """`supervisor demo` and other commands on one store, without a terminal."""

    def __init__(self, folder: Path, backend: str) -> None:
        self.folder = folder
        self.backend = backend
        kept = {name: value for name, value in os.environ.items() if not name.startswith("SUPERVISOR")}
        self.env = {**kept, "SUPERVISOR_STORE": str(folder / "state.db"), "TMPDIR": str(folder)}

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "supervisor", *arguments]
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return preloaded.Popen(command, cwd=self.folder, env=self.env, text=True, **pipes)

    def run(self, *arguments: str) -> tuple[int, Any]:
        with self.start(*arguments, "--json") as process:
            out, err = process.communicate(timeout=60)
        assert out, err
        return process.returncode, json.loads(out)

    def wait_and_kill(self) -> list[str]:
        """Start it, wait until it only waits, and SIGKILL it. Return its pending approvals."""
        with self.start("demo", "--wait", "--backend", self.backend) as process:
            lines = (line.split() for line in process.stderr)
            asked = [next(words[1] for words in lines if words[:1] == ["approval"]) for _ in range(3)]
            while [each["path"][-1] for each in self.run("sessions")[1] if each["outcome"]] != ["watcher", "surveyor"]:
                assert process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.communicate()
        return asked

    def begun(self) -> Counter[tuple[str, str]]:
        """Return how often each call of each session began."""
        events = self.run("audit")[1]
        return Counter((each["session"], each["operation"]) for each in events if each["event"] == "ToolCallStarted")


def test_unattended_it_completes_everything(tmp_path: Path, backend):
    """With `allow` every session completes, one of them cancelled by its parent, and the work is done."""
    demo = Demo(tmp_path, backend)
    code, answer = demo.run("demo", "--unattended", "allow", "--backend", backend)
    assert code == 0
    assert answer["outcome"]["kind"] == "succeeded"
    sessions = demo.run("sessions")[1]
    assert {each["status"] for each in sessions} == {"completed"}
    assert [each["path"][-1] for each in sessions if each["outcome"]["kind"] == "cancelled"] == ["watcher"]
    project = Path(answer["outcome"]["value"]["project"])
    assert (project / "release.tar.gz").exists()
    assert list(project.rglob("*.tmp")) == []
    assert (project / "test-runs.txt").read_text() == "ran\n"


def test_killed_during_a_wait_it_continues(tmp_path: Path, backend):
    """After SIGKILL the same approvals are asked under the same ids, and no call that had run runs again."""
    demo = Demo(tmp_path, backend)
    asked = demo.wait_and_kill()
    before = demo.begun()
    assert set(before.values()) == {1}
    again = demo.wait_and_kill()
    assert sorted(again) == sorted(asked)
    assert demo.begun() == before
    for approval in asked:
        assert demo.run("approve", approval, "--by", "ana")[0] == 0
    code, answer = demo.run("demo", "--backend", backend)
    assert (code, answer["session"], answer["outcome"]["kind"]) == (0, "demo", "succeeded")
    assert set(demo.begun().values()) == {1}
    assert sorted(each["id"] for each in demo.run("approvals", "--all")[1]) == sorted(asked)
    runs = Path(answer["outcome"]["value"]["project"], "test-runs.txt")
    assert runs.exists(), answer
    assert runs.read_text() == "ran\n"


def test_killed_between_two_decisions_it_keeps_the_first(tmp_path: Path, backend):
    """A decision whose result was `accepted` still counts after SIGKILL. The other approvals are still pending."""
    demo = Demo(tmp_path, backend)
    first, *others = demo.wait_and_kill()
    assert demo.run("deny", first, "--reason", "not tonight", "--by", "ana")[0] == 0
    code, _ = demo.run("demo", "--backend", backend)
    assert code == 3
    assert sorted(each["id"] for each in demo.run("approvals")[1]) == sorted(others)
    code, answer = demo.run("resume", "demo", "--unattended", "allow", "--backend", backend)
    assert code == 0
    assert sum("not tonight" in text for text in answer["outcome"]["value"].values()) == 1
    assert {each["status"] for each in demo.run("sessions")[1]} == {"completed"}
