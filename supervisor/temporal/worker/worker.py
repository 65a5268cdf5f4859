"""A worker: it runs the trees of a namespace, and the bodies of their calls and steps. Start as many as you like.

Rules
- A worker owns nothing. If it dies, any other one goes on with its trees.
- It runs the functions of its agents' modules, and no others (offered.py), and no agent whose own code would give
  another value in a replay (determinism.py).
- One with a queue runs the calls of tools that name it, and nothing else.
- With a build, the trees that it begins are pinned to workers of this build (a deployment version of Temporal). Claims
  and rules go on with any build.
- When it is stopped, bodies that run have `leave` to end (R8). Then they are cancelled, and count as interrupted. If
  one does not end even then, or an agent does not, the worker leaves STOPPED_AFTER_SECONDS later, and the log says so.
"""

import sys
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from datetime import timedelta
from importlib import import_module
from typing import Any, Final, NamedTuple

import anyio
from temporalio.common import VersioningBehavior, WorkerDeploymentVersion
from temporalio.worker import UnsandboxedWorkflowRunner, Worker, WorkerDeploymentConfig

from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.declarations.previews import PREVIEWS_ELSEWHERE
from supervisor.core.declarations.tool_spec import ToolSpec
from supervisor.core.errors import InvalidInput
from supervisor.core.limits import ELSEWHERE
from supervisor.core.store_urls import TemporalStore
from supervisor.system.inside import refuse_inside_call
from supervisor.system.loading import refuse_nameless
from supervisor.system.logs import FactLog
from supervisor.system.prices import Prices, genai_price
from supervisor.temporal.connection import connect_to_server, keep_credentials, prepare, warn_of_retention
from supervisor.temporal.telemetry import Metrics
from supervisor.temporal.wire import QUEUE, queue_of
from supervisor.temporal.worker.bodies import Bodies
from supervisor.temporal.worker.couriers import Couriers
from supervisor.temporal.worker.determinism import refuse_undetermined
from supervisor.temporal.worker.diverged import TellingRunner
from supervisor.temporal.worker.long_steps import be_patient
from supervisor.temporal.worker.namespace import NamespaceActivities
from supervisor.temporal.worker.offered import Offered
from supervisor.temporal.worker.probes import address_of, answering
from supervisor.temporal.workflow.workflows import PINNED, WORKFLOWS, CourierWorkflow, Offer

log = FactLog(__name__)

STOPPED_AFTER_SECONDS: Final = 20.0
"""Seconds after `leave` that a stop of the worker takes at most. Processes that a cancelled body ends are killed long
before."""
STICKY: Final = timedelta(seconds=2)
"""How long the server waits for the worker that has a tree in memory, before it asks another one."""
HEARTBEATS: Final = timedelta(seconds=0.05)
"""The longest time for which temporalio holds a sign of life back. A cancel reaches a body with the next one. There is
one a second, and more when a tree of this process cancels it (bodies.py)."""


class Room(NamedTuple):
    """How much a worker takes on at once, and how long it takes to leave; see `run_worker`."""

    bodies: int = 100
    tasks: int = 100
    pollers: int = 5
    leave: float = 10.0
    queue: str | None = None
    probes: str | None = None


_USUAL: Final = Room()


def _check(agents: Sequence[AgentSpec[..., Any]], room: Room) -> None:
    """Raise InvalidInput for what a worker cannot run, and for no room to run it."""
    if min(room[:3]) < 1 or not room.leave >= 0:
        raise InvalidInput(
            "bodies, tasks and pollers of a worker are at least 1, and the time to leave is not negative"
        )
    by_name = {spec.name: spec for spec in agents}
    for spec in agents:
        refuse_nameless(spec)
        if by_name[spec.name] is not spec:
            raise InvalidInput(f"two agents are named {spec.name}: rename one with @agent(name=...)")
        if spec.holds_process:
            raise InvalidInput(
                f"agent {spec.name} holds a process, which stays on one machine: run it without Temporal"
            )
        if (bound := next((each for each in (spec, *spec.tools.values()) if each.limit is not None), None)) is not None:
            raise InvalidInput(f"{bound.name}: {ELSEWHERE}")
        for each in spec.tools.values():
            if isinstance(each, ToolSpec) and each.preview is not None:
                raise InvalidInput(f"tool {each.name}: {PREVIEWS_ELSEWHERE}")


async def _answer_others(
    receiver: Worker, probes: tuple[str, int] | None, is_ready: Callable[[], bool], metrics: Metrics | None
) -> None:
    """Take couriers, and answer probes if there is an address for them, until cancelled."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(receiver)
        if probes is None or metrics is None:
            await anyio.sleep_forever()
        else:
            await stack.enter_async_context(answering(probes, is_ready, metrics.lines))
            await metrics.keep()


async def work(
    store: TemporalStore,
    agents: Sequence[AgentSpec[..., Any]],
    *,
    lost_after: float,
    cached: int,
    also: Sequence[str],
    build: str | None,
    room: Room = _USUAL,
    prices: Prices = genai_price,
    is_open: Callable[[], object],
) -> None:
    """Run trees until cancelled; see `run_worker`."""
    refuse_inside_call("running a worker")
    by_name = {spec.name: spec for spec in agents}
    _check(agents, room)
    refuse_undetermined(agents)
    for name in also:
        if name not in sys.modules:
            try:
                import_module(name)
            except ImportError as error:
                raise InvalidInput(f"module {name} cannot be imported: {error}") from None
    version = None if build is None else WorkerDeploymentVersion(deployment_name=QUEUE, build_id=build)
    probes = None if room.probes is None else address_of(room.probes)
    metrics = None if probes is None else Metrics()
    client = await connect_to_server(store, None if metrics is None else metrics.runtime)
    await prepare(client, store)
    await warn_of_retention(client, store, agents)
    namespace = NamespaceActivities(client, store)
    couriers = Couriers(client)
    bodies = Bodies(Offered(agents, also), namespace.rules, couriers, prices)
    workflows = WORKFLOWS if build is None else PINNED
    worker = Worker(
        client,
        task_queue=queue_of(room.queue),
        workflows=workflows if room.queue is None else [],
        activities=[bodies.run, *(namespace.activities if room.queue is None else ())],
        interceptors=[Offer(by_name, lost_after, bodies.hurry)],
        unsandboxed_workflow_runner=TellingRunner(client),
        deployment_config=None
        if version is None
        else WorkerDeploymentConfig(
            version=version, use_worker_versioning=True, default_versioning_behavior=VersioningBehavior.AUTO_UPGRADE
        ),
        max_cached_workflows=cached,
        max_heartbeat_throttle_interval=HEARTBEATS,
        default_heartbeat_throttle_interval=HEARTBEATS,
        max_concurrent_activities=room.bodies,
        max_concurrent_workflow_tasks=max(2, room.tasks),
        max_concurrent_workflow_task_polls=max(2, room.pollers),
        max_concurrent_activity_task_polls=room.pollers,
        graceful_shutdown_timeout=timedelta(seconds=room.leave),
        sticky_queue_schedule_to_start_timeout=STICKY,
    )
    be_patient(worker)
    receiver = Worker(
        client,
        task_queue=couriers.queue,
        workflows=[CourierWorkflow],
        interceptors=[Offer({}, lost_after, bodies.take_courier)],
        unsandboxed_workflow_runner=UnsandboxedWorkflowRunner(),
        max_cached_workflows=0,
    )
    serving = anyio.CancelScope(shield=True)  # until the worker is stopped
    lasting = anyio.CancelScope(shield=True)  # until it has left
    is_leaving = False

    async def serve() -> None:
        with serving:
            await worker.run()

    async def last() -> None:
        with lasting:
            await _answer_others(receiver, probes, lambda: not is_leaving, metrics)

    def take_client() -> None:
        worker.client = receiver.client = client

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(serve)
        tasks.start_soon(last)
        tasks.start_soon(keep_credentials, client, store, take_client)
        is_open()
        try:
            await anyio.sleep_forever()
        finally:
            is_leaving = True
            with anyio.move_on_after(room.leave + STOPPED_AFTER_SECONDS, shield=True) as patience:
                await worker.shutdown()
            if patience.cancelled_caught:
                log.error(
                    "worker.not_stopped",
                    seconds=room.leave + STOPPED_AFTER_SECONDS,
                    reason="a body or an agent does not end",
                )
                serving.cancel()
            lasting.cancel()
