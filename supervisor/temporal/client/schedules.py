"""Schedules of a namespace: each is a schedule of Temporal, which keeps it and wakes for it (wakes.py).

Temporal does what it can do: it keeps time, what runs, what waits and what is paused, without a worker of ours. What it
starts is a workflow of ours, which begins the tree of the instant (workflow/scheduled.py).

Rules
- The input of that workflow has the whole schedule, and the person who has added it. Nothing else of it is kept.
- An instant that passes while the session before is open is Temporal's to count. It is shown as long as that is open.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import anyio
import msgspec
from temporalio.client import (
    Schedule as TemporalSchedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleOverlapPolicy,
    SchedulePolicy,
)
from temporalio.service import RPCError

from supervisor.core.encoding import to_json
from supervisor.core.errors import InvalidInput, NotFound, ServerUnavailable, UnknownAgent
from supervisor.core.schedules import IfRunning, Schedule, ScheduleChange, ScheduleView
from supervisor.runtime.plans.schedules import LATE
from supervisor.runtime.reading.schedules import next_instant
from supervisor.runtime.scheduling import checked_schedules, start_of
from supervisor.system.cron import last_until
from supervisor.system.identity import working_directory
from supervisor.temporal.client.trees import Trees
from supervisor.temporal.connection import SOON, is_no_workflow, lacks_attribute, server_errors
from supervisor.temporal.payloads import largest_for
from supervisor.temporal.searched import attributes_of_schedule
from supervisor.temporal.wakes import find_offsets, wakes_of
from supervisor.temporal.wanted import Wanted
from supervisor.temporal.wire import (
    HANDLED,
    QUEUE,
    SCHEDULE,
    Handled,
    Scheduled,
    Start,
    from_wire,
    schedule_id,
    to_wire,
)

LARGEST_BYTES: Final = 128 * 1024
"""Bytes of a schedule as JSON. It lives longer than the files of larger payloads may."""
AT_ONCE: Final = 20
_POLICIES: Final[Mapping[IfRunning, ScheduleOverlapPolicy]] = {
    "skip": ScheduleOverlapPolicy.SKIP,
    "after": ScheduleOverlapPolicy.BUFFER_ONE,
    "beside": ScheduleOverlapPolicy.ALLOW_ALL,
}


async def add_schedule(trees: Trees, schedule: Schedule, who: str) -> ScheduleView:
    """Add a schedule for a person; see Supervisor.add_schedule. Where no worker answers, its agent and input are looked
    at when it begins."""
    (schedule,) = checked_schedules([schedule]).values()
    if (size := len(to_json(to_wire(schedule), "a schedule"))) > LARGEST_BYTES:
        raise InvalidInput(
            f"schedule {schedule.name} has {size} bytes as JSON, and {LARGEST_BYTES} at most are kept: put its input "
            "into a file or an object store, and pass its name"
        )
    command, now = start_of(schedule, None), datetime.now(UTC)
    given = None if command.input is None else bytes(command.input).decode()
    await _check_agent(trees, Wanted(name=schedule.agent, given=given))
    start = Start(
        agent=schedule.agent,
        session="",
        cwd=working_directory(),
        requester=who,
        by=who,
        largest=largest_for(trees.client),
        has_marks=True,
        has_signals=True,
        has_attributes=trees.has_attributes,
    )
    try:
        await _create(trees, Scheduled(schedule=schedule, start=start, offsets=find_offsets(schedule, now)))
    except ScheduleAlreadyRunningError:
        known = await find_schedule(trees, schedule.name)
        if known.schedule != schedule:
            raise InvalidInput(
                f"another schedule is named {schedule.name}: remove that one first, or choose another name"
            ) from None
        return known
    return await find_schedule(trees, schedule.name)


async def _check_agent(trees: Trees, wanted: Wanted) -> None:
    """Raise UnknownAgent if each of the workers that answer lacks an agent; InvalidInput if it takes no such input."""
    with suppress(ServerUnavailable):
        found = await trees.ask_agents([wanted])
        if found["missing"] is not None:
            if (lacking := await trees.why_unknown([wanted])) is not None:
                raise UnknownAgent(f"no worker can run agent {wanted.name!r} {lacking}")
        elif (misfit := found.get("misfit")) is not None:
            raise InvalidInput(misfit)


async def _create(trees: Trees, scheduled: Scheduled) -> None:
    schedule, named = scheduled.schedule, schedule_id(scheduled.schedule.name)
    kept_for = LATE if schedule.if_missed == "skip" else timedelta(days=365)
    with server_errors(trees.named, maybe_done=True):
        try:
            await trees.client.create_schedule(
                named,
                TemporalSchedule(
                    action=ScheduleActionStartWorkflow(SCHEDULE, to_wire(scheduled), id=named, task_queue=QUEUE),
                    spec=wakes_of(schedule, scheduled.offsets),
                    policy=SchedulePolicy(overlap=_POLICIES[schedule.if_running], catchup_window=kept_for),
                ),
                search_attributes=attributes_of_schedule(scheduled.start),
                rpc_timeout=SOON,
            )
        except RPCError as error:
            if not (scheduled.start.has_attributes and lacks_attribute(error)):
                raise
            trees.has_attributes = False
            without = msgspec.structs.replace(scheduled.start, has_attributes=False)
            await _create(trees, msgspec.structs.replace(scheduled, start=without))


async def change_schedule(trees: Trees, name: str, to: ScheduleChange, who: str) -> ScheduleView:
    """Change a schedule; see Supervisor.change_schedule."""
    known = await find_schedule(trees, name)
    handle = _handle(trees, name)
    with server_errors(trees.named, maybe_done=True):
        if to == "removed":
            await handle.delete(rpc_timeout=SOON)
            return known
        if to == "paused":
            await handle.pause(note=f"paused by {who}", rpc_timeout=SOON)
        else:
            await handle.unpause(note=f"goes on, by {who}", rpc_timeout=SOON)
    return await find_schedule(trees, name)


async def find_schedule(trees: Trees, name: str) -> ScheduleView:
    """Return a schedule by its name. Raises NotFound."""
    found = await _read(trees, name)
    if found is None:
        known = ", ".join(each.schedule.name for each in await find_schedules(trees)) or "none"
        raise NotFound(f"there is no schedule {name} in {trees.where}; the schedules are: {known}")
    return found


async def find_schedules(trees: Trees) -> list[ScheduleView]:
    """Return all schedules of the namespace, oldest first. Those of other programs are left out."""
    prefix, found, limit = schedule_id(""), list[ScheduleView](), anyio.CapacityLimiter(AT_ONCE)

    async def read(name: str) -> None:
        async with limit:
            if (view := await _read(trees, name)) is not None:
                found.append(view)

    with server_errors(trees.named):
        listed = [each.id async for each in await trees.client.list_schedules(rpc_timeout=SOON)]
    async with anyio.create_task_group() as tasks:
        for each in listed:
            if each.startswith(prefix):
                tasks.start_soon(read, each.removeprefix(prefix))
    return sorted(found, key=lambda each: (each.added_at, each.schedule.name))


def _handle(trees: Trees, name: str) -> ScheduleHandle:
    return trees.client.get_schedule_handle(schedule_id(name))


async def _read(trees: Trees, name: str) -> ScheduleView | None:
    """Return a schedule as it is now; None if there is none of ours."""
    with server_errors(trees.named):
        try:
            described = await _handle(trees, name).describe(rpc_timeout=SOON)
        except RPCError as error:
            if is_no_workflow(error):
                return None
            raise
    action: Any = described.schedule.action
    if action.workflow != SCHEDULE:
        return None
    (document,) = await trees.client.data_converter.decode(action.args)
    return await _view(trees, described, from_wire(document, Scheduled))


async def _view(trees: Trees, described: ScheduleDescription, scheduled: Scheduled) -> ScheduleView:
    schedule, now, is_paused = scheduled.schedule, datetime.now(UTC), described.schedule.state.paused
    last = await _last(trees, described)
    view = ScheduleView(
        schedule=schedule,
        by=scheduled.start.by,
        added_at=described.info.created_at,
        is_paused=is_paused,
        next=None if is_paused else next_instant(schedule, now),
        last=None if last is None else last.instant,
        became=None if last is None else last.became,
        reason=None if last is None else last.reason,
        session=None if last is None else last.session,
    )
    if last is None or is_paused or not described.info.running_actions:
        return view
    if described.raw_description.info.buffer_size:
        since = next_instant(schedule, last.instant)
        return view if since is None or since > now else msgspec.structs.replace(view, waiting=since)
    with suppress(InvalidInput):
        passed = last_until(schedule.cron, schedule.timezone, now)
        if schedule.if_running == "skip" and passed is not None and passed > last.instant:
            why = f"session {last.session} is open"
            return msgspec.structs.replace(view, last=passed, became="skipped", reason=why)
    return view


async def _last(trees: Trees, described: ScheduleDescription) -> Handled | None:
    """Return what became of the last instant, as far as the namespace keeps it. A wake may find that none is due."""
    for each in reversed(described.info.recent_actions):
        action: Any = each.action
        with suppress(NotFound):
            memo = await (await trees.namespace.describe(action.workflow_id)).memo()
            if HANDLED in memo:
                return from_wire(memo[HANDLED], Handled)
    return None
