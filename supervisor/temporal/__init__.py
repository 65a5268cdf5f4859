"""The same agents on Temporal, when one machine is not enough. One tree is one workflow, and one body an activity.

    tree         a tree's workflow: our runtime over a journal in memory     environment  its time, ids, bodies
    bridge       how code of a workflow waits                                bodies       calls and steps on a worker
    worker       a process that runs trees and bodies                        references   names of their functions
    remote       the Supervisor: one method each            starting     starts of sessions
    decisions    who decides: a claim                       commands     signals to a tree
    trees        where sessions and approvals are           mirror       what was read of them
    runs         runs and watches                           wire         what is written to a server
    served       the Supervisor of a server                 mirror_store where a mirror is kept
    cards        one card, however many servers             claims       workflows that claim by their ids
    rules        rules for all sessions                     rulebook     the workflow that keeps them
    connection   servers, namespaces, errors                order        in which cancelled tasks go on
    carry        what a tree takes along when it moves      rescue       of sessions whose code has changed
    workflows    a tree's, and those that claim             turns        of a tree that has ended
    forks        trees that begin with a copy               imports      sessions of other programs
    determinism  what an agent's own code may not call      ended        trees that Temporal has ended
    missing      agents that a worker lacks

temporalio is imported when a namespace is opened: the extra `temporal` brings it.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from supervisor.abc import Supervisor
from supervisor.core.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput
from supervisor.core.store_urls import read_temporal_url
from supervisor.system.finalizing import note_native_threads

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
    is_open: Callable[[], object] = lambda: None,
) -> None:
    """Run sessions of these agents, and the bodies of their calls and steps, until cancelled. Start as many workers as
    you like: they share nothing but the server.

    `lost_after`: seconds without a sign of life after which a call counts as lost with its worker. `cached`: how many
    sessions stay in memory while they wait. `is_open` is called when the worker has begun.
    `also`: modules besides those of the agents whose functions the worker runs, by name. A module that declares an
    agent or a tool, and that a module of an agent imports, needs no name here.
    `build`: the version of the code. Sessions stay with workers of the version with which they began.
    Raises InvalidInput for agents that cannot run on Temporal, and names the line if one reads the clock by itself;
    otherwise as `open_temporal`.
    """
    store = read_temporal_url(url)
    _import()
    from supervisor.temporal.worker.worker import work

    await work(store, agents, lost_after=lost_after, cached=cached, also=also, build=build, is_open=is_open)


def _import() -> None:
    try:
        import temporalio  # noqa: F401 # to say what is missing
    except ModuleNotFoundError:
        raise InvalidInput("for Temporal temporalio is needed: pip install 'subagent-supervisor[temporal]'") from None
    note_native_threads()
