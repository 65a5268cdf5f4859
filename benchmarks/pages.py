"""How long does it take from a decision over HTTP until every one of 500 listening pages knows?

A daemon runs in its own process. This process has the pages, which listen to `/api/events` as the inbox does, and a
person who decides by a POST. Measured from the first byte of the request until the last page has the event.
Durability: SQLite WAL synchronous=FULL.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from time import monotonic, perf_counter, sleep
from typing import Any

import anyio

from benchmarks.measure import BACKENDS, Report, scratch

TOKEN = "a-token-that-is-long-enough-for-benchmarks"  # of a daemon that ends with the benchmark
AGENTS = Path(__file__).with_name("agents.py")


def run(smoke: bool) -> dict[str, Any]:
    report = Report()
    pages, decisions = (5, 1) if smoke else (500, 7)
    for backend in BACKENDS:
        report.compare(f"Decision to every one of {pages} pages, {backend}", "SQLite WAL synchronous=FULL")
        with scratch() as folder, _daemon(folder, backend) as port:
            taken = anyio.run(partial(_decide, port, pages, decisions))
        report.values("first page", [first for first, _ in taken], "ms", 1e3)
        last = [last * 1e3 for _, last in taken]
        report.ratio(f"decision to every one of {pages} pages, {backend}", last, at_most=250, unit="ms")
    return {"rows": report.rows}


@contextmanager
def _daemon(folder: Path, backend: str) -> Iterator[int]:
    """Run a daemon, and give its port."""
    log = folder / "log"
    command = [sys.executable, "-m", "supervisor", "serve", str(AGENTS), "--backend", backend, "--port", "0"]
    env = {name: value for name, value in os.environ.items() if not name.startswith("SUPERVISOR")}
    with log.open("wb") as out:
        process = subprocess.Popen(
            [*command, "--store", str(folder / "state.db")],
            env={**env, "SUPERVISOR_TOKEN": TOKEN},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=out,
        )
    try:
        until = monotonic() + 60
        while (found := re.search(r"http://\S+:(\d+)", log.read_text())) is None:
            if process.poll() is not None or monotonic() > until:
                raise RuntimeError(f"the daemon did not start:\n{log.read_text()}")
            sleep(0.02)
        yield int(found[1])
    finally:
        process.kill()
        process.wait()


async def _decide(port: int, pages: int, decisions: int) -> list[tuple[float, float]]:
    """Return the seconds from each decision to the first page and to the last."""
    taken = []
    for number in range(decisions):
        session = f"s{number}"
        await _ask(port, "POST", "/api/sessions", {"agent": "asker", "input": f"{number} 200", "session": session})
        while not (approvals := await _ask(port, "GET", "/api/approvals"))["items"]:
            await anyio.sleep(0.02)
        after, approval = approvals["cursor"], approvals["items"][0]["id"]
        listening, heard = list[None](), list[float]()
        async with anyio.create_task_group() as tasks:
            for _ in range(pages):
                tasks.start_soon(_listen, port, after, approval, listening, heard)
            while len(listening) < pages:
                await anyio.sleep(0.02)
            await anyio.sleep(0.5)
            begun = perf_counter()
            await _ask(port, "POST", f"/api/approvals/{approval}/decision", {"decision": "approve"})
        taken.append((min(heard) - begun, max(heard) - begun))
    return taken


async def _ask(port: int, method: str, path: str, body: Any = None) -> Any:
    """Return the JSON that a request is answered with."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(_request(method, path, port, b"" if body is None else json.dumps(body).encode()))
        said = b"".join([piece async for piece in stream])
    head, _, answer = said.partition(b"\r\n\r\n")
    status = int(head.split()[1])
    assert 200 <= status < 300, said
    return json.loads(answer)


def _request(method: str, path: str, port: int, body: bytes = b"") -> bytes:
    lines = [f"{method} {path} HTTP/1.1", f"host: 127.0.0.1:{port}", f"authorization: Bearer {TOKEN}"]
    lines += ["content-type: application/json", f"content-length: {len(body)}", "connection: close"]
    return "\r\n".join([*lines, "", ""]).encode() + body


async def _listen(port: int, after: str, approval: str, listening: list[None], heard: list[float]) -> None:
    """Listen until the decision comes."""
    async with await anyio.connect_tcp("127.0.0.1", port) as stream:
        await stream.send(_request("GET", f"/api/events?after={after}", port))
        said = await stream.receive()
        assert said.startswith(b"HTTP/1.1 200"), said
        listening.append(None)
        while approval.encode() not in said:
            said += await stream.receive()
        heard.append(perf_counter())
