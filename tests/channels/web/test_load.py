"""A thousand pending approvals and two hundred clients that listen: the API stays usable.

What bounds it is the processor's time that the daemon takes, which a loaded machine hardly changes, in units of a loop
that this process runs at the same time, which a slow one takes longer for, too.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import httpx
import pytest
from daemons import TOKEN, until

PENDING, STREAMS, LISTED = 1000, 200, 10
MOST = {"list": 3.0, "connect": 5.0, "hear": 2.5}
"""In loops of `yardstick`: six to ten times what each thing takes."""


@pytest.mark.slow
@pytest.mark.parametrize("daemon", ["asyncio", pytest.param("trio", marks=pytest.mark.soak)], indirect=True)
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_a_thousand_approvals_and_two_hundred_streams(daemon):
    """Everybody hears of a decision, and the daemon has little to do for it."""
    daemon.start()
    with daemon.client() as client:
        body = {"agent": "asking_many", "input": PENDING, "session": "many"}
        client.post("/api/sessions", json=body).raise_for_status()
        until(lambda: f"supervisor_approvals_pending {PENDING}\n" in client.get("/metrics").text, 120)
    took = anyio.run(listen_and_decide, daemon.url, lambda: cpu_of(daemon.process.pid))
    unit = yardstick()
    assert took.keys() == MOST.keys()
    assert {what: seconds / unit for what, seconds in took.items() if seconds / unit > MOST[what]} == {}


def cpu_of(pid: int) -> float:
    """Return the processor's time that a process has taken, in seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def yardstick() -> float:
    """Return the time that this process takes for a hundred thousand small documents: the least of three."""
    seconds = []
    for _ in range(3):
        began = time.process_time()
        for number in range(100_000):
            json.loads(json.dumps({"id": number, "text": "x"}))
        seconds.append(time.process_time() - began)
    return min(seconds)


async def listen_and_decide(url: str, cpu: Callable[[], float]) -> dict[str, float]:
    """Return the daemon's time for each thing, in seconds."""
    took: dict[str, float] = {}
    headers, limits = {"authorization": f"Bearer {TOKEN}"}, httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=60) as client:

        async def listen(after: str, done: anyio.Event) -> None:
            async with client.stream("GET", "/api/events", params={"after": after}) as stream:
                async for line in stream.aiter_lines():
                    if line.startswith("id:"):
                        break
            done.set()

        began = cpu()
        for _ in range(LISTED):
            page = (await client.get("/api/approvals", params={"limit": PENDING})).json()["items"]
        took["list"], began = cpu() - began, cpu()
        assert len(page) == PENDING
        after = (await client.get("/api/approvals", params={"limit": 1})).json()["cursor"]
        done = [anyio.Event() for _ in range(STREAMS)]
        async with anyio.create_task_group() as tasks:
            for each in done:
                tasks.start_soon(listen, after, each)
            while f"supervisor_event_streams {STREAMS}\n" not in (await client.get("/metrics")).text:
                await anyio.sleep(0.25)
            took["connect"], began = cpu() - began, cpu()
            path = f"/api/approvals/{page[0]['id']}/decision"
            (await client.post(path, json={"decision": "approve"})).raise_for_status()
            for each in done:
                await each.wait()
            took["hear"] = cpu() - began
    return took
