"""Is a budget kept by a hundred sub-agents whose process is killed again and again?

A fake endpoint in this process counts what it has served. The tree is in another process, which is killed with SIGKILL
at random instants, and once more while its question waits. Then a person approves with an edit, and the tree ends.

Checked: the journal never counts more than the budget; what was served beyond it was in flight at a kill; one question
is asked; after the decision every sub-agent ends; a replay follows; a tree without a budget is as fast as before.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer
from time import perf_counter, sleep
from typing import Any

import anyio

from benchmarks.measure import Report, scratch
from supervisor import Budget, Context, StepContext, Usage, agent, open_supervisor

PORT = "BENCHMARK_ENDPOINT"
SESSION = "bounded"
EACH = 4
"""Requests of each sub-agent."""
AT_REST = 4.0
"""Seconds after which a process that asks for nothing waits for its question."""
NUMBERS = ("children", "requests", "kill")


class Endpoint(ThreadingTCPServer):
    """Serves a request in a few milliseconds, and counts it."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 1024

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.served = 0
        self.counting = threading.Lock()
        threading.Thread(target=self.serve_forever, daemon=True).start()


class _Answer(StreamRequestHandler):
    server: Endpoint

    def handle(self) -> None:
        with suppress(OSError):
            if not self.rfile.readline():
                return
            with self.server.counting:
                self.server.served += 1
            sleep(random.uniform(0.001, 0.02))
            self.wfile.write(b"answer\n")


async def ask(step: StepContext, child: int, number: int) -> str:
    async with await anyio.connect_tcp("127.0.0.1", int(os.environ[PORT])) as stream:
        await stream.send(f"{child} {number}\n".encode())
        answer = await stream.receive()
    step.used(Usage(model="fake", input_tokens=90, output_tokens=10, usd=0.001))
    return answer.decode()


@agent
async def child(ctx: Context, number: int) -> int:
    for each in range(EACH):
        async with ctx.model_call():
            await ctx.step(ask, number, each)
    return EACH


@agent
async def parent(ctx: Context, children: int) -> int:
    runs = [await ctx.spawn(child, number) for number in range(children)]
    return sum([await run.result() for run in runs])


async def work(store: str, children: int, requests: int, passivate_after: float) -> None:
    """Be the process that runs the tree, until it is killed or the tree has ended."""
    budget = Budget(requests=requests) if requests else None
    async with open_supervisor(store, passivate_after=passivate_after, tune_interpreter=True) as supervisor:
        run = await supervisor.start(parent, children, session=SESSION, budget=budget)
        print((await run.outcome()).kind, flush=True)


def run(smoke: bool, *, children: int = 100, requests: int = 200, kill: int = 40) -> dict[str, Any]:
    if smoke:
        children, requests, kill = 5, 10, 1
    report = Report()
    report.compare(f"{children} sub-agents, {EACH} requests each, a budget of {requests}, {kill} kills", "SQLite FULL")
    with scratch() as folder:
        found = _killed(folder, children, requests, kill)
        for name, value in found.items():
            print(f"  {name}: {value}")
        plain, bounded = (_took(folder / name, children, most) for name, most in (("plain.db", 0), ("bound.db", 10**6)))
        report.ratio("a tree with a budget, in the time of one without", [bounded], [plain])
    return {"rows": report.rows, **found}


def _killed(folder: Path, children: int, requests: int, kills: int) -> dict[str, Any]:
    endpoint, store = Endpoint(), str(folder / "killed.db")
    env = {**os.environ, PORT: str(endpoint.server_address[1])}
    done = 0
    while done < kills:
        before, process, begun = endpoint.served, _begin(store, children, requests, env), perf_counter()
        while endpoint.served == before and perf_counter() - begun < AT_REST:  # three deaths without progress end a run
            sleep(0.02)
        sleep(random.uniform(0.02, 0.3))
        process.send_signal(signal.SIGKILL)
        process.wait()
        done += 1
    process = _begin(store, children, requests, env, passivate_after=60.0)  # so that it dies with the runs in memory
    while not (asked := _asked(store, env)):
        assert process.poll() is None, process.communicate()[0]
        sleep(0.2)
    process.send_signal(signal.SIGKILL)  # at the question
    process.wait()
    served, counted = endpoint.served, _counted(store, env)
    _command(env, "check-replay", __file__, "--store", store)  # it asks no budget
    process = _begin(store, children, requests, env)
    sleep(2)
    assert _asked(store, env) == asked, "one question, the same one"
    assert len(asked) == 1, asked
    assert counted == requests, f"{counted} requests are journaled, of {requests}"
    assert endpoint.served == served, "nothing is asked for while the question waits"
    limit = json.dumps({"requests": children * EACH})
    _command(env, "approve", asked[0], "--edit", limit, "--store", store)
    assert process.communicate(timeout=120)[0].strip() == "succeeded"
    assert _counted(store, env) == children * EACH
    return {
        "served before the question": served,
        "journaled then": counted,
        "cut off by kills": served - counted,
        "kills": done + 1,
        "served in all": endpoint.served,
    }


def _begin(
    store: str, children: int, requests: int, env: dict[str, str], *, passivate_after: float = 0.5
) -> subprocess.Popen[str]:
    words = [sys.executable, "-m", "benchmarks.budgets", store, str(children), str(requests), str(passivate_after)]
    return subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def _command(env: dict[str, str], *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "supervisor", *words], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 3), done.stderr
    return done.stdout


def _asked(store: str, env: dict[str, str]) -> list[str]:
    return [each["id"] for each in json.loads(_command(env, "approvals", "--json", "--store", store))]


def _counted(store: str, env: dict[str, str]) -> int:
    found: int = json.loads(_command(env, "usage", SESSION, "--json", "--store", store))["total"]["requests"]
    return found


def _took(store: Path, children: int, requests: int) -> float:
    endpoint, begun = Endpoint(), perf_counter()
    process = _begin(str(store), children, requests, {**os.environ, PORT: str(endpoint.server_address[1])})
    assert process.communicate(timeout=120)[0].strip() == "succeeded"
    return perf_counter() - begun


if __name__ == "__main__":
    anyio.run(work, sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
