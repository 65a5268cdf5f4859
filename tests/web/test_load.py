"""A thousand pending approvals and two hundred clients that listen: the API stays usable."""

import time

import anyio
import httpx
import pytest
from daemons import TOKEN, until

PENDING, STREAMS = 1000, 200


@pytest.mark.slow
def test_a_thousand_approvals_and_two_hundred_streams(daemon):
    """Everybody hears of a decision, and nobody waits for long meanwhile."""
    daemon.start()
    with daemon.client() as client:
        body = {"agent": "asking_many", "input": PENDING, "session": "many"}
        client.post("/api/sessions", json=body).raise_for_status()
        until(lambda: f"supervisor_approvals_pending {PENDING}\n" in client.get("/metrics").text, 120)
    took = anyio.run(listen_and_decide, daemon.url)
    assert max(took.values()) < 60, took


async def listen_and_decide(url: str) -> dict[str, float]:
    """Return how long each thing took, in seconds."""
    took: dict[str, float] = {}
    headers, limits = {"authorization": f"Bearer {TOKEN}"}, httpx.Limits(max_connections=None)
    async with httpx.AsyncClient(base_url=url, headers=headers, limits=limits, timeout=60) as client:

        async def listen(after: int, done: anyio.Event) -> None:
            async with client.stream("GET", "/api/events", params={"after": after}) as stream:
                async for line in stream.aiter_lines():
                    if line.startswith("id:"):
                        break
            done.set()

        began = time.monotonic()
        page = (await client.get("/api/approvals", params={"limit": PENDING})).json()["items"]
        took["list"], began = time.monotonic() - began, time.monotonic()
        assert len(page) == PENDING
        journal = (await client.get(f"/api/sessions/{page[-1]['session']}/journal")).json()["items"]
        done = [anyio.Event() for _ in range(STREAMS)]
        async with anyio.create_task_group() as tasks:
            for each in done:
                tasks.start_soon(listen, journal[-1]["position"], each)
            while f"supervisor_event_streams {STREAMS}\n" not in (await client.get("/metrics")).text:
                await anyio.sleep(0.05)
            took["connect"], began = time.monotonic() - began, time.monotonic()
            path = f"/api/approvals/{page[0]['id']}/decision"
            (await client.post(path, json={"decision": "approve"})).raise_for_status()
            took["decide"] = time.monotonic() - began
            for each in done:
                await each.wait()
            took["hear"] = time.monotonic() - began
    return took
