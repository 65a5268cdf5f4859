"""`supervisor worker`: run the sessions of a namespace of Temporal. Start as many workers as you like."""

import os
from functools import partial
from typing import Annotated

from cyclopts import Parameter

from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import Exit
from supervisor.cli.options import HERE, Place
from supervisor.core.errors import InvalidInput
from supervisor.core.store_urls import TEMPORAL


def worker(
    *agents: str,
    lost_after: Annotated[
        float, Parameter(help="Seconds without a sign of life after which a call counts as lost with its worker.")
    ] = 30.0,
    cached: Annotated[int, Parameter(help="How many sessions stay in memory while they wait.")] = 1000,
    also: Annotated[
        tuple[str, ...], Parameter(negative=(), help="Another module whose functions agents use as steps; repeat it.")
    ] = (),
    build: Annotated[
        str | None,
        Parameter(help="The version of the code. Sessions stay with workers of the version that began them."),
    ] = None,
    bodies: Annotated[int, Parameter(help="How many calls and steps run at once.")] = 100,
    tasks: Annotated[int, Parameter(help="How many sessions are worked on at once.")] = 100,
    pollers: Annotated[int, Parameter(help="How many requests ask for work at once, for each of the two.")] = 5,
    leave: Annotated[
        float, Parameter(help="Seconds that calls and steps have to end when the worker is stopped.")
    ] = 10.0,
    queue: Annotated[
        str | None,
        Parameter(help="Run the calls of tools that name this queue, as in @tool(queue=...), and nothing else."),
    ] = None,
    probes: Annotated[
        str | None, Parameter(help="HOST:PORT where it answers GET /live, /ready and /metrics, which need no token.")
    ] = None,
    place: Place = HERE,
) -> int:
    """Run the sessions of a namespace of Temporal, and the calls and steps of their agents.

    Parameters
    ----------
    agents
        Files or modules whose agents this worker runs: FILE.py, MODULE, or FILE.py:NAME for one agent.
    """
    from supervisor.system.closed import close_to_others
    from supervisor.system.loading import load_agents
    from supervisor.temporal import run_worker
    from supervisor.wiring.stopping import bare, run_until_stopped

    if (store := place.temporal) is None:
        raise InvalidInput(f"a worker runs on a cluster: name it by --store {TEMPORAL}")
    if not agents:
        raise InvalidInput("a worker needs agents: name their files or modules, as in FILE.py")
    if not lost_after > 0:
        raise InvalidInput(f"--lost-after is more than 0 seconds, not {lost_after:g}")
    if any(name.startswith("TEMPORAL_") for name in os.environ):
        close_to_others()
    found = [spec for each in agents for spec in load_agents(each).values()]
    names = ", ".join(sorted(spec.name for spec in found))

    def is_open() -> None:
        say_on_stderr(f"Working for {store} ({names})")

    body = partial(
        run_worker,
        str(store),
        found,
        lost_after=lost_after,
        cached=cached,
        also=also,
        build=build,
        bodies=bodies,
        tasks=tasks,
        pollers=pollers,
        leave=leave,
        queue=queue,
        probes=probes,
        is_open=is_open,
    )
    return run_until_stopped(bare(body), "asyncio") or Exit.DONE
