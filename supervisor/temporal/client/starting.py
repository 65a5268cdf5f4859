"""Starts of sessions: a session is a workflow, whose id is the session's, so that it can be started once."""

from collections.abc import Iterable
from typing import Any

import msgspec
from temporalio.client import WorkflowExecutionStatus
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from supervisor.core.encoding import printable_text
from supervisor.core.errors import InvalidInput, LimitExceeded, SessionConflict
from supervisor.core.events import SessionCreated
from supervisor.core.ids import check_session_id, new_session_id
from supervisor.core.rows import JournalEntry
from supervisor.runtime.journal.view import Entry
from supervisor.seam import commands
from supervisor.store.memory import MemoryStore
from supervisor.system.identity import find_folder, working_directory
from supervisor.system.loading import holds_command
from supervisor.temporal.carry import pack
from supervisor.temporal.client.trees import Trees
from supervisor.temporal.connection import SOON, lacks_attribute, server_errors
from supervisor.temporal.payloads import VARIABLE, largest_for
from supervisor.temporal.searched import attributes_of
from supervisor.temporal.wanted import Wanted
from supervisor.temporal.wire import (
    CARRIED_LARGEST_BYTES,
    LARGEST_BYTES,
    ONCE,
    QUEUE,
    TREE,
    Carried,
    Start,
    check_size,
    mark_of_start,
    memo_of,
    to_wire,
)


async def start_session(trees: Trees, command: commands.Start, who: str) -> tuple[str, bool]:
    """Start an agent, and wait for a bounded time until a worker has begun it. Return the session, and whether it is
    new. `who`: the person."""
    agent, session, cwd = command.agent, command.session, command.cwd
    if command.spec is None and holds_command(agent):
        raise InvalidInput(f"{agent!r} holds a command, and start takes the name of an agent of the workers")
    given: Any = msgspec.UNSET
    largest = largest_for(trees.client)
    if command.input is not None:
        command.check_exact()
        check_size(command.input, "the input", largest)
        given = msgspec.json.decode(command.input)
    root = check_session_id(session) if session is not None else new_session_id()
    here = working_directory()
    start = Start(
        agent=agent,
        given=given,
        session=root,
        cwd=here if cwd is None else find_folder(cwd, here),
        requester=printable_text(command.requester) if command.requester else who,
        by=who,
        budget=command.budget,
        largest=largest,
        has_marks=True,
        has_signals=True,
        rules=await trees.rules.known(),
    )
    mark = mark_of_start(start)
    run = await start_tree(trees, start, mark)
    if run is None:
        described = await trees.namespace.describe(root)
        if (await described.memo()).get("start") != mark:
            raise SessionConflict(
                f"session {root} belongs to another agent, or was started with another input or budget; choose "
                "another id"
            ) from None
    await trees.until_accepted(root, run, [Wanted(name=start.agent)])
    return root, run is not None


def start_with(trees: Trees, root: str, entries: Iterable[Entry], who: str) -> Start:
    """Return the Start of a tree that begins with a journal. Raises LimitExceeded."""
    rows = [JournalEntry(place, session, event) for place, (session, event) in enumerate(entries, 1)]
    store = MemoryStore()
    store.begin()
    store.write(rows)
    store.commit()
    journal, largest = pack(store, is_whole=True), largest_for(trees.client)
    if largest <= LARGEST_BYTES and len(journal) > CARRIED_LARGEST_BYTES:
        raise LimitExceeded(
            f"the journal of session {root} would have {len(journal)} bytes, compressed, and {CARRIED_LARGEST_BYTES} "
            f"at most are kept: name a folder for large payloads ({VARIABLE})"
        )
    created = next(row.event for row in rows if row.session == root)
    assert isinstance(created, SessionCreated)
    return Start(
        agent=created.path[-1],
        session=root,
        cwd=created.cwd,
        requester=created.requester,
        by=who,
        largest=largest,
        has_marks=True,
        has_signals=True,
        carried=Carried(journal=journal, last=len(rows), earlier=None, is_whole=True, answers={}),
    )


async def start_tree(trees: Trees, start: Start, mark: str) -> str | None:
    """Start the workflow of a tree, with a mark in its memo by which the same start is known. Return its run, if there
    was none of its id, or one that a worker has refused. One that Temporal has ended keeps its id."""
    if (run := await _try_start(trees, start, mark, WorkflowIDReusePolicy.REJECT_DUPLICATE)) is not None:
        return run
    described = await trees.namespace.describe(start.session)
    if described.status == WorkflowExecutionStatus.FAILED and await trees.namespace.why_ended(described) is None:
        return await _try_start(trees, start, mark, ONCE)  # a worker has refused it
    return None


async def _try_start(trees: Trees, start: Start, mark: str, policy: WorkflowIDReusePolicy) -> str | None:
    """Start the workflow of a tree, unless the policy forbids it. Return its run; None if it does. Where the namespace
    lacks the search attributes for people, it has none of them."""
    root = start.session
    if trees.has_attributes:
        start = msgspec.structs.replace(start, has_attributes=True)
    try:
        with server_errors(trees.named, maybe_done=True):
            try:
                begun = await trees.client.start_workflow(
                    TREE,
                    to_wire(start),
                    id=root,
                    task_queue=QUEUE,
                    id_reuse_policy=policy,
                    memo=memo_of(start, mark),
                    search_attributes=attributes_of(start),
                    rpc_timeout=SOON,
                )
            except RPCError as error:
                if not (start.has_attributes and lacks_attribute(error)):
                    raise
                trees.has_attributes = False
                return await _try_start(trees, msgspec.structs.replace(start, has_attributes=False), mark, policy)
    except WorkflowAlreadyStartedError:
        return None
    trees.mirror.signalled.add(root)
    return begun.result_run_id
