"""Open trees with which no worker can go on: their code does not follow the history, or never ends its task.

Rules
- What fails is a task of the whole workflow, so the whole tree is blocked, with the reason at its root (R1). Nothing of
  it is lost. Temporal gives the task to a worker again and again: the tree goes on with the first one that can do it.
- A task that does not follow the history is told from its first failure on. Any other task is told after FAILED_TASKS
  failures: workers die, and some lack an agent.
- The server knows it: no worker is asked. It keeps the first failure in the history, and counts the others. A worker
  has left there what its code asks for (worker/diverged.py), unless it has died.
- Activities of calls and steps are named by their operations (workflow/bodies.py), and so is what reads the rules for
  a call (workflow/environment.py). What else there is, is told by its kind.
"""

import re
from collections.abc import AsyncIterator
from datetime import UTC
from typing import Any, Final

import msgspec
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import GetWorkflowExecutionHistoryReverseRequest
from temporalio.client import Client
from temporalio.service import RPCError

from supervisor.core.blocking import Block
from supervisor.core.encoding import printable_text
from supervisor.core.errors import IllegalEvent
from supervisor.core.ids import split_operation_id
from supervisor.runtime.attempt.divergence import told_operation
from supervisor.temporal.connection import SOON, is_no_workflow
from supervisor.temporal.wire import MEMO, MISSING, diverged_id

FAILED_TASKS: Final = 3
"""How often a task has failed, or was not ended in time, when its tree counts as blocked."""
DIVERGED: Final = "[TMPRL1100]"
"""How Temporal's text begins for code that does not follow a history."""
_NOTHING: Final = "No command scheduled"
_IDS: Final = re.compile(r"event '(?P<held>[^']*)' does not match .* command '(?P<asked>[^']*)'")
_MACHINE: Final = re.compile(r"(?P<asked>\w[\w ]*?) ?[Mm]achine does not handle")
_EVENT: Final = re.compile(r"HistoryEvent\(id: (?P<id>\d+)")
_OF_OPERATION: Final = re.compile(r"(?:rules )?(?P<session>\S+) (?P<run>\d+) (?P<operation>.+?#\d+)(?: \d+)?")
"""The name of an activity. Another try of a body has its number at the end."""
_WAIT: Final = "a wait until an instant"
_ASKED: Final = "a question, or another call that a person decides"
_HELD: Final = {
    EventType.EVENT_TYPE_TIMER_STARTED: _WAIT,
    EventType.EVENT_TYPE_TIMER_CANCELED: "the end of a wait",
    EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED: _ASKED,
    EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES: _ASKED,
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED: "the end of the session",
}
"""What an event is of which a tree has one for no single operation."""
_INSTEAD: Final = {
    "Activity": "a call or a step",
    "Timer": _WAIT,
    "ModifyWorkflowProperties": _ASKED,
    "UpsertWorkflowSearchAttributes": _ASKED,
    "Complete workflow": "the end of the session",
    "Fail workflow": "the end of the session",
}
"""What is asked for, by the name that Temporal has for what takes an event."""
_PAGE: Final = 200
_DONE: Final = EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
_FAILED: Final = EventType.EVENT_TYPE_WORKFLOW_TASK_FAILED
_LATE: Final = EventType.EVENT_TYPE_WORKFLOW_TASK_TIMED_OUT


def tries(described: Any) -> int:
    """Return how often the task of a tree that waits for a worker, or is at one, has failed."""
    return max(0, int(described.raw_description.pending_workflow_task.attempt) - 1)


async def find_block(client: Client, described: Any) -> Block | None:
    """Return why no worker can go on with an open tree, as far as the server knows; None if one may."""
    failed = tries(described)
    if not failed:
        return None
    async for event in _newest_first(client, described):
        if event.event_type == _DONE:
            return None
        if event.event_type not in (_FAILED, _LATE):
            continue
        found = event.workflow_task_failed_event_attributes
        text, kind = found.failure.message, found.failure.application_failure_info.type
        if found.cause == WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_NON_DETERMINISTIC_ERROR:
            return await block_of(client, described.id, described.run_id, text)
        if failed < FAILED_TASKS:
            return None
        if kind == MISSING:
            return Block(why="agent", cause=printable_text(text))
        said = text or "no worker ends it in time: the agent computes for too long between two operations, or dies"
        return Block(why="path", cause=printable_text(f"its task has failed {FAILED_TASKS} times or more: {said}"))
    return None


async def block_of(client: Client, root: str, run: str | None, failure: str) -> Block:
    """Return the block of a tree whose history the code does not follow. `failure`: what Temporal says of it."""
    ids, machine, number = _IDS.search(failure), _MACHINE.search(failure), _EVENT.search(failure)
    event: HistoryEvent | None = None
    async for each in client.get_workflow_handle(root, run_id=run).fetch_history_events():
        if (ids and _name_of(each) == ids["held"]) or (number and each.event_id == int(number["id"])):
            event = each
            break
    told = await _told_by_worker(client, root, run)
    name = "" if event is None else _name_of(event)
    operation = _OF_OPERATION.fullmatch(name)
    asked = "nothing" if _NOTHING in failure else None
    if machine is not None:
        asked = _INSTEAD.get(machine["asked"])
        if asked == _ASKED:
            asked = next(iter(told.values()), asked)
    if ids is not None:
        found = _OF_OPERATION.fullmatch(ids["asked"])
        asked = (told.get(found["operation"]) if found else None) or _told(ids["asked"]) or None
    held = "" if event is None else await _held_by(client, event) or _told(name) or _HELD.get(event.event_type, name)
    return Block(
        why="path",
        cause=printable_text(f"the agent asked for {asked} instead" if asked else failure),
        operation=None if operation is None else operation["operation"],
        held=printable_text(held),
        held_at=None if event is None else event.event_time.ToDatetime(UTC),
    )


async def _told_by_worker(client: Client, root: str, run: str | None) -> dict[str, str]:
    """Return what code has asked for that does not follow a history, as people read it, by operation."""
    try:
        described = await client.get_workflow_handle(root, run_id=run).describe(rpc_timeout=SOON)
        told = await client.get_workflow_handle(diverged_id(described.run_id)).describe(rpc_timeout=SOON)
    except RPCError as error:
        if not is_no_workflow(error):
            raise
        return {}
    return dict((await told.memo())["asked"])


async def _held_by(client: Client, event: HistoryEvent) -> str:
    """Return the call or the question with which an event has shown what people are asked; "" for another event."""
    if not event.HasField("workflow_properties_modified_event_attributes"):
        return ""
    memo = event.workflow_properties_modified_event_attributes.upserted_memo.fields[MEMO]
    (shown,) = await client.data_converter.decode([memo])
    if not shown["pending"]:
        return ""
    asked = shown["pending"][-1]
    is_call = asked.get("kind", "call") == "call"
    return told_operation(*(("call", asked["tool"], asked["arguments"]) if is_call else ("ask", "", asked["question"])))


async def _newest_first(client: Client, described: Any) -> AsyncIterator[HistoryEvent]:
    request = GetWorkflowExecutionHistoryReverseRequest(
        namespace=client.namespace,
        execution=WorkflowExecution(workflow_id=described.id, run_id=described.run_id),
        maximum_page_size=_PAGE,
    )
    while True:
        found = await client.workflow_service.get_workflow_execution_history_reverse(request, timeout=SOON)
        for event in found.history.events:
            yield event
        if not found.next_page_token:
            return
        request.next_page_token = found.next_page_token


def _name_of(event: HistoryEvent) -> str:
    """Return the name that the tree gave to what an event asks for: the id of an activity, or of a marker; "" if it
    has none."""
    if event.HasField("marker_recorded_event_attributes"):
        (data,) = event.marker_recorded_event_attributes.details["patch-data"].payloads
        return str(msgspec.json.decode(data.data)["id"])
    return event.activity_task_scheduled_event_attributes.activity_id


def _told(name: str) -> str:
    """Return an operation in words, from the name of its activity: its kind and its name; "" if it names none."""
    found = _OF_OPERATION.fullmatch(name)
    if found is None:
        return ""
    try:
        key, count = split_operation_id(found["operation"])
    except IllegalEvent:
        return ""
    kind, _, rest = key.partition(":")
    words = f"{kind} {rest.rpartition(':')[0]}".strip()
    return words if count == 1 else f"{words}, number {count}"
