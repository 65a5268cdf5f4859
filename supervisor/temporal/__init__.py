"""The same agents on Temporal, when one machine is not enough. One tree is one workflow, and one body an activity.

    workflow/    inside a workflow, which is run again from its history: it must do the same each time
    worker/      a worker process, which runs workflows, and the bodies of calls and steps
    client/      the Supervisor of a namespace: one method each; it runs no agent
    mirror/      what a client has read of the namespace, in a store

Clients and workers do not import each other, and what runs inside a workflow imports none of the other rooms. They
share

    wire         what is written to a server               settings     how a process reaches one
    connection   servers, namespaces, errors               payloads     large ones, in files
    telemetry    what temporalio logs and measures
    carry        what a tree takes along when it moves     left         what one that has ended has left
    rules        rules for all sessions                    rulebook     their changes, and what holds then
    searched     by what people find a tree
    wanted       what a tree needs of its worker           wakes        when Temporal wakes for a schedule

temporalio is imported when a namespace is opened: the extra `temporal` brings it.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput
from supervisor.core.store_urls import read_temporal_url
from supervisor.seam.supervisor import Supervisor
from supervisor.system.finalizing import note_native_threads
from supervisor.system.prices import Prices, genai_price

__all__ = ["open_temporal", "run_worker"]


@asynccontextmanager
async def open_temporal(url: str) -> AsyncIterator[Supervisor]:
    """Open the supervisor of a namespace, "temporal://HOST:PORT/NAMESPACE", to start, decide, cancel and read. Workers
    run its sessions.

    Raises InvalidInput for another URL, and on trio, since temporalio runs on asyncio alone; ServerUnavailable if no
    server answers; NotFound if it has no such namespace.
    """
    store = read_temporal_url(url)
    _import()
    from supervisor.temporal.client.remote import opened

    async with opened(store) as supervisor:
        yield supervisor


async def run_worker(
    url: str,
    agents: Sequence[AgentSpec[..., Any]],
    *,
    lost_after: float = 30.0,
    cached: int = 1000,
    also: Sequence[str] = (),
    build: str | None = None,
    bodies: int = 100,
    tasks: int = 100,
    pollers: int = 5,
    leave: float = 10.0,
    queue: str | None = None,
    probes: str | None = None,
    prices: Prices = genai_price,
    is_open: Callable[[], object] = lambda: None,
) -> None:
    """Run sessions of these agents, and the bodies of their calls and steps, until cancelled. Start as many workers as
    you like: they share nothing but the server.

    `lost_after`: seconds without a sign of life after which a call counts as lost with its worker. `cached`: how many
    sessions stay in memory while they wait. `is_open` is called when the worker has begun.
    `also`: modules besides those of the agents whose functions the worker runs, by name. A module that declares an
    agent or a tool, and that a module of an agent imports, needs no name here.
    `build`: the version of the code. Sessions stay with workers of the version with which they began.
    `bodies` and `tasks`: how many calls and steps run at once, and how many sessions are worked on; `pollers`: how many
    requests ask for work at once, for each of the two. `leave`: seconds that calls and steps have to end when the
    worker is stopped (R8). `queue`: run the calls of tools that name this queue, and nothing else.
    `probes`: HOST:PORT, where it answers GET /live, /ready and /metrics. `prices`: as of `open_supervisor`; all workers
    of a namespace should have the same.
    Raises InvalidInput for agents that cannot run on Temporal, and names the line if one reads the clock by itself;
    otherwise as `open_temporal`.
    """
    store = read_temporal_url(url)
    _import()
    from supervisor.temporal.worker.worker import Room, work

    await work(
        store,
        agents,
        lost_after=lost_after,
        cached=cached,
        also=also,
        build=build,
        room=Room(bodies, tasks, pollers, leave, queue, probes),
        prices=prices,
        is_open=is_open,
    )


def _import() -> None:
    try:
        import temporalio  # noqa: F401 # to say what is missing
    except ModuleNotFoundError:
        raise InvalidInput("for Temporal temporalio is needed: pip install 'subagent-supervisor[temporal]'") from None
    note_native_threads()
