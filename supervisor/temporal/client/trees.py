"""Where sessions and approvals are: their trees, as the mirror and the server know them.

Rules
- What is new in a tree is read into the mirror, and then the mirror is read.
- What people wait for is also read from the memo of a tree, which needs no worker.
"""

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

import anyio
from temporalio.client import Client, WorkflowExecutionStatus, WorkflowFailureError
from temporalio.exceptions import ApplicationError

from supervisor.core.errors import InvalidInput, NotFound, RunBlocked, ServerUnavailable, UnknownAgent
from supervisor.core.ids import approval_route, new_session_id
from supervisor.core.store_urls import TemporalStore
from supervisor.core.values import Approval, SessionStatus, SessionView
from supervisor.temporal.connection import SOON, server_errors
from supervisor.temporal.mirror.mirror import Mirror
from supervisor.temporal.mirror.namespace import PATIENCE, POLL_SECONDS, NotReplayed
from supervisor.temporal.mirror.store import MirrorFile, MirrorStore
from supervisor.temporal.rules import NamespaceRules
from supervisor.temporal.wanted import Wanted
from supervisor.temporal.wire import (
    AGENTS,
    BARE_CLAIM,
    MEMO,
    QUEUE,
    ROUTE,
    Command,
    from_wire,
    raise_error,
    refusal_id,
    to_wire,
)

SOON_ENOUGH: Final = PATIENCE.total_seconds()
"""Seconds for which a command waits for what a worker makes of it."""
ASKED: Final = 20
"""How often the workers are asked for an agent that one of them lacks."""


class Trees:
    """The trees of a namespace, with their mirror."""

    def __init__(self, client: Client, named: TemporalStore, store: MirrorStore | MirrorFile, mirror: Mirror) -> None:
        self.client = client
        self.named = named
        self.where = str(named)
        self.store = store
        self.mirror = mirror
        self.namespace = mirror.namespace
        self.rules = NamespaceRules(client, named)
        self.has_attributes = client.data_converter.payload_codec is None
        """Whether new trees have the search attributes for people: not where a codec hides what trees hold, and not
        after the namespace has refused one."""

    async def read(self, session: str) -> str:
        """Read what is new in a session's tree. Return its root. Raises NotFound."""
        root = await self.find_root(session)
        await self.mirror.read(root)
        return root

    async def find_root(self, session: str) -> str:
        row = self.store.get_session(session)
        if row is not None:
            return row.root
        try:
            await self.namespace.describe(session)
        except NotFound:
            await self.mirror.read_all()
            row = self.store.get_session(session)
            if row is None and (unread := sorted(self.mirror.unread)):
                raise ServerUnavailable(
                    f"session {session} is unknown, and may be one of a tree that this code of the workers cannot read "
                    f"({', '.join(unread)}): start a worker with the code that these trees began with",
                    maybe_done=False,
                ) from None
            if row is None:
                raise NotFound(f"there is no session {session} in {self.where}") from None
            return row.root
        return session

    async def root_of_approval(self, approval: str) -> str | None:
        """Return the tree in which an approval may have been asked, by the beginning of its id."""
        if (known := self.store.get_approval(approval)) is not None:
            return known.root_session
        route = approval[: len(approval_route(""))]
        if not route.isalnum():
            return None
        with server_errors(self.named):
            async for each in self.client.list_workflows(f'{ROUTE} = "{route}"'):
                return each.id
        return None

    async def find_in_memo(self, described: Any, approval: str) -> Approval | None:
        """Return an approval of a tree that is pending, as the server knows it without a worker."""
        memo = (await described.memo())[MEMO]
        if described.status != WorkflowExecutionStatus.RUNNING:
            return None
        for each in memo["pending"]:
            if each["id"] == approval:
                return from_wire(each, Approval)
        if approval in memo["left_out"]:
            await self.mirror.read(described.id)
            found = self.store.get_approval(approval)
            return found if found is not None and found.status == "pending" else None
        return None

    async def refuse_ended(self, described: Any) -> None:
        """Raise InvalidInput if Temporal has ended a tree: it takes no command."""
        if (why := await self.namespace.why_ended(described)) is not None:
            raise InvalidInput(f"session {described.id} {why}")

    async def is_open(self, root: str) -> bool:
        return bool((await self.namespace.describe(root)).status == WorkflowExecutionStatus.RUNNING)

    async def until_accepted(self, root: str, run: str | None, wanted: Sequence[Wanted]) -> None:
        """Wait until a worker has begun a tree, or has refused to, for a bounded time: it begins when one lives. `run`:
        that of its workflow, if this client has started it just now; `wanted`: what the tree needs of its worker.
        Raises UnknownAgent if no worker has it."""
        if run is not None and await self.mirror.read_first(root, run):
            return
        pause, is_offered = POLL_SECONDS, False
        with anyio.move_on_after(SOON_ENOUGH):
            while True:
                described = await self.namespace.describe(root)
                if described.status == WorkflowExecutionStatus.FAILED:
                    await self._raise_failure(root)
                if not is_offered and await self.namespace.is_left(described):
                    await self._refuse_unknown(described, wanted)
                    is_offered = True
                with anyio.move_on_after(pause):  # no worker answers for a tree that none has begun
                    with suppress(ServerUnavailable):
                        await self.mirror.read(root)
                    if self.store.get_session(root) is not None:
                        return
                pause *= 2
                await anyio.sleep(POLL_SECONDS / 4)

    async def _refuse_unknown(self, described: Any, wanted: Sequence[Wanted]) -> None:
        """Raise UnknownAgent if each of the workers that answer lacks what a tree needs. Cancel the tree then, so that
        it is refused by each worker (workflow/tree.py). One that has begun it meanwhile ends it in order."""
        if (lacking := await self.why_unknown(wanted)) is None:
            return
        text = f"no worker can run session {described.id} {lacking}"
        cancel = Command(id=new_session_id(), kind="cancel", session=described.id, by="supervisor", text=text)
        with server_errors(self.named, maybe_done=True):
            await self.client.get_workflow_handle(described.id).signal("command", to_wire(cancel), rpc_timeout=SOON)
            await self.client.start_workflow(
                BARE_CLAIM, id=refusal_id(described.run_id), task_queue=QUEUE, rpc_timeout=SOON
            )
        raise UnknownAgent(text)

    async def why_unknown(self, wanted: Sequence[Wanted]) -> str | None:
        """Return what each of the workers that answer lacks, and the agents that they have; None if one lacks nothing,
        or none answers."""
        names, missing = set[str](), set[str | None]()

        async def ask() -> None:
            with suppress(ServerUnavailable):
                found = await self.ask_agents(wanted)
                names.update(each["name"] for each in found["agents"])
                missing.add(found["missing"])

        async with anyio.create_task_group() as tasks:  # each comes to any worker
            for _ in range(ASKED):
                tasks.start_soon(ask)
        if None in missing or not missing:
            return None
        said = "; ".join(sorted(each for each in missing if each is not None))
        return f"({said}); the agents are: {', '.join(sorted(names)) or 'none'}"

    async def ask_agents(self, wanted: Sequence[Wanted] = ()) -> Any:
        """Return the agents of the worker that answers, and what it lacks of what a tree needs. Raises
        ServerUnavailable if none does."""
        with server_errors(self.named):
            asked = await self.client.start_workflow(
                AGENTS,
                [to_wire(each) for each in wanted],
                id=f"agents~{new_session_id()}",
                task_queue=QUEUE,
                execution_timeout=timedelta(seconds=2 * SOON_ENOUGH),
                rpc_timeout=SOON,
            )
        found: Any = None
        with anyio.move_on_after(SOON_ENOUGH):
            found = await asked.result()
        if found is None:
            raise ServerUnavailable(
                f"no worker answers; start one: supervisor worker --store {self.where} FILE.py", maybe_done=False
            )
        return found

    async def _raise_failure(self, root: str) -> None:
        try:
            await self.client.get_workflow_handle(root).result(rpc_timeout=SOON)
        except WorkflowFailureError as error:
            raise_error(failure_of(error))

    async def begun(self, session: str) -> str:
        """Wait until a worker has begun a session's tree, however long it takes. Return the root. Raises
        ServerUnavailable if Temporal has ended the tree, and no worker can read it; RunBlocked if none can go on."""
        while True:
            root: str | None = None
            try:
                root = await self.find_root(session)
                await self.mirror.read(root)
            except ServerUnavailable as unread:
                if root is not None and isinstance(unread, NotReplayed) and unread.block is not None:
                    raise RunBlocked(root, unread.block) from None
                if root is not None and await self.namespace.why_ended(await self.namespace.describe(root)) is not None:
                    raise
                await anyio.sleep(POLL_SECONDS)
                continue
            if self.store.get_session(session) is not None:
                return root
            if (await self.namespace.describe(root)).status == WorkflowExecutionStatus.FAILED:
                await self._raise_failure(root)
            await anyio.sleep(POLL_SECONDS)

    async def views_of_unread(self) -> list[SessionView]:
        """Return the roots of trees that could not be read, as far as the server knows them."""
        return [await self.view_of(root) for root in self.mirror.unread if self.store.get_session(root) is None]

    async def view_of(self, root: str) -> SessionView:
        """Return a root as the server knows it without a worker."""
        described = await self.namespace.describe(root)
        memo = await described.memo()
        outcome: dict[str, Any] | None = None
        if described.status == WorkflowExecutionStatus.COMPLETED:
            found = await self.client.get_workflow_handle(root).result(rpc_timeout=SOON)
            outcome = {key: found[key] for key in ("kind", "value", "cause")}
        elif (cause := await self.namespace.why_ended(described)) is not None:
            outcome = {"kind": "abandoned", "value": None, "cause": cause}
        pending = tuple(from_wire(each, Approval) for each in memo[MEMO]["pending"])
        is_open = described.status == WorkflowExecutionStatus.RUNNING
        owner = self.store.get_owner(root) if is_open else None
        is_done = outcome is not None and outcome["kind"] in ("succeeded", "cancelled")
        status: SessionStatus = "waiting_approval" if pending else "active"
        block = self.mirror.blocks.get(root) if is_open else None
        if not is_open:
            status = "completed" if is_done else "error"
        elif block is not None:
            status = "blocked"
        return SessionView(  # without a worker the number of its latest run is not known
            id=root,
            parent=None,
            root=root,
            agent=memo["agent"],
            path=(memo["agent"],),
            status=status,
            outcome=outcome,
            pending_approvals=pending if is_open else (),
            created_at=described.start_time,
            ended_at=described.close_time,
            owner=None if owner is None else str(owner),
            running=owner is not None,
            blocked=block,
        )


def failure_of(error: WorkflowFailureError) -> dict[str, str]:
    """Return the error with which a workflow of ours has failed, in the form in which workers answer."""
    cause = error.cause
    if isinstance(cause, ApplicationError):
        return {"error": cause.type or "ServerError", "text": cause.message}
    return {"error": "ServerError", "text": f"the workflow ended: {cause}"}
