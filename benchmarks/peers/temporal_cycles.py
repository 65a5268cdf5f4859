"""Temporal: a workflow that waits for a signal, then runs an activity; its dev server with a database file."""

import asyncio
import json
import socket
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from temporalio import activity, workflow
from temporalio.client import Client
from temporalio.worker import Worker


@activity.defn
async def act(note: str) -> str:
    return note


@workflow.defn
class Asker:
    def __init__(self) -> None:
        self.decided = False

    @workflow.signal
    def decide(self) -> None:
        self.decided = True

    @workflow.run
    async def run(self, note: str) -> str:
        await workflow.wait_condition(lambda: self.decided)
        return await workflow.execute_activity(act, note, start_to_close_timeout=timedelta(seconds=30))


async def connect(port: int) -> Client:
    for _ in range(300):
        try:
            return await Client.connect(f"127.0.0.1:{port}")
        except RuntimeError:
            await asyncio.sleep(0.1)
    raise RuntimeError("the dev server does not answer")


async def main(port: int, count: int) -> float:
    client = await connect(port)
    async with Worker(client, task_queue="cycles", workflows=[Asker], activities=[act]):
        await client.execute_workflow(Asker.run, "x", id="warm", task_queue="cycles", start_signal="decide")
        begun = time.perf_counter()
        start = [client.start_workflow(Asker.run, "x" * 200, id=f"w{n}", task_queue="cycles") for n in range(count)]
        handles = await asyncio.gather(*start)
        await asyncio.gather(*(handle.signal(Asker.decide) for handle in handles))
        await asyncio.gather(*(handle.result() for handle in handles))
        return count / (time.perf_counter() - begun)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    binary = str(Path(sys.executable).with_name("temporal"))
    with tempfile.TemporaryDirectory(dir=".") as folder:
        port = free_port()
        command = [binary, "server", "start-dev", "--headless", "--port", str(port), "--log-level", "never"]
        server = subprocess.Popen([*command, "--db-filename", f"{folder}/temporal.db"], stdout=subprocess.DEVNULL)
        try:
            rate = asyncio.run(main(port, int(sys.argv[1])))
        finally:
            server.kill()
            server.wait()
    print(json.dumps({"per_second": rate, "durability": "SQLite, as the dev server sets it up"}))
