"""Reading and changing the rules of a namespace (rulebook.py).

Rules
- They are read just before each call is asked for, and just before its effect. So a deny holds for what begins after it
  was read. On one machine it holds for what begins after it was added.
- Each look asks the server whether something has changed. The history is read only if it has. Looks that wait for
  another one share the next: it begins after all of them have come.
- If the server does not answer, no call begins.
- A change is a signal to the workflow that runs. One that was ended in Temporal takes none, so its history is final:
  the next reader begins the workflow again with the rules that it had.
- A decision with the scope "always" makes a rule. The tree decides first, since only a decision that counts makes one,
  and then an activity of the tree adds the rule, as often as it takes: the same rule is one rule. The tree reads no
  rules meanwhile, so the next call of the same tree knows it (workflow/environment.py).
"""

from datetime import UTC, datetime
from typing import Any, Final

import anyio
from msgspec.structs import replace
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError

from supervisor.core.calls.rules import Rule, checked_rule
from supervisor.core.encoding import to_json
from supervisor.core.errors import LimitExceeded, NotFound, ServerUnavailable
from supervisor.core.store_urls import TemporalStore
from supervisor.system.logs import FactLog
from supervisor.temporal.connection import SOON, is_no_workflow, server_errors
from supervisor.temporal.rulebook import RuleChange, Standing, can_travel
from supervisor.temporal.wire import (
    QUEUE,
    RULES_ID,
    RULES_TYPE,
    KnownRules,
    from_wire,
    to_wire,
)

log = FactLog(__name__)

SHOWN_WITHIN_SECONDS: Final = 10.0
"""Seconds after which the history shows a signal: a worker that is lost with a task of the workflow has so long."""
LARGEST_BYTES: Final = 256 * 1024
"""Bytes of JSON that all rules may have together: each call's look returns them."""


class NamespaceRules:
    def __init__(self, client: Client, named: TemporalStore) -> None:
        self._client = client
        self._named = named
        self._known: tuple[str, int] = ("", 0)
        """The run and the length of the history that was read last."""
        self.standing = Standing([])
        """What held at the last look."""
        self._looking = anyio.Lock()
        self._begun = self._ended = 0
        """The numbers of the look that began last, and of the one that last found what holds."""

    async def find(self) -> list[Rule]:
        """Return the rules, oldest first. Raises ServerUnavailable."""
        with server_errors(self._named):
            await self.read()
        return list(self.standing.rules.values())

    async def known(self) -> KnownRules | None:
        """Return the rules that hold now, as they travel; None if there are too many. Raises ServerUnavailable."""
        await self.find()
        known = self.standing.known()
        return known if can_travel(known) else None

    async def add(self, rule: Rule, by: str, new_id: str) -> Rule:
        """Add a rule; see Supervisor.add_rule. Raises LimitExceeded."""
        await self.find()
        if (same := self.standing.find_same(rule)) is not None:
            return same
        added = replace(checked_rule(rule), id=new_id)
        self._check_size(added)
        await self.change(RuleChange(by=by, at=datetime.now(UTC), rule=added))
        await self.find()
        found = self.standing.find_same(added)
        if found is None:
            raise NotFound(f"rule {new_id} was added, and revoked at once; add it again")
        return found

    async def check_room(self, rule: Rule) -> None:
        """Raise LimitExceeded if there is no room for another rule."""
        await self.find()
        self._check_size(rule)

    def _check_size(self, added: Rule) -> None:
        if len(to_json([*self.standing.documents(), to_wire(added)], "the rules")) > LARGEST_BYTES:
            raise LimitExceeded(f"the rules of {self._named} have {LARGEST_BYTES} bytes as JSON: revoke some of them")

    async def revoke(self, rule: str, by: str) -> Rule:
        """Revoke a rule; see Supervisor.revoke_rule. Raises NotFound."""
        await self.find()
        if (known := self.standing.rules.get(rule)) is None:
            raise NotFound(f"there is no rule {rule} in {self._named}: it was revoked already, or is written in code")
        await self.change(RuleChange(by=by, at=datetime.now(UTC), revoked=rule))
        return known

    async def change(self, change: RuleChange) -> None:
        """Make a change, and return when the history shows it. Raises ServerUnavailable."""
        with server_errors(self._named, maybe_done=True):
            try:
                await self._client.get_workflow_handle(RULES_ID).signal("change", to_wire(change), rpc_timeout=SOON)
            except RPCError as error:
                if not is_no_workflow(error):
                    raise
                await self.read()
                await self._begin(start_signal="change", start_signal_args=[to_wire(change)])
            with anyio.move_on_after(SHOWN_WITHIN_SECONDS):
                while True:
                    await self.read()
                    if self.standing.has(change):
                        return
                    await anyio.sleep(SHOWN_WITHIN_SECONDS / 200)
        raise ServerUnavailable(
            f"{self._named} has taken a change of its rules, and does not show it yet: look at `supervisor rules` "
            "before you repeat it",
            maybe_done=True,
        )

    async def _begin(self, **signal: Any) -> None:
        """Begin the workflow with the rules that are known, unless it runs."""
        await self._client.start_workflow(
            RULES_TYPE,
            self.standing.documents(),
            id=RULES_ID,
            task_queue=QUEUE,
            id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            rpc_timeout=SOON,
            **signal,
        )

    async def read(self) -> None:
        """Read what holds now into `standing`. Raises RPCError."""
        came = self._begun
        async with self._looking:
            if self._ended <= came:  # else one that began later has read it
                self._begun = number = self._begun + 1
                await self._look()
                self._ended = number

    async def _look(self) -> None:
        handle = self._client.get_workflow_handle(RULES_ID)
        try:
            described = await handle.describe(rpc_timeout=SOON)
        except RPCError as error:
            if is_no_workflow(error):  # no rule was ever added
                return
            raise
        now = described.run_id, described.history_length
        if now != self._known:
            await self._read_history(described.run_id)
        if described.status != WorkflowExecutionStatus.RUNNING:
            log.warning("rules.restored", ended=str(described.status and described.status.name), run=described.run_id)
            await self._begin()

    async def _read_history(self, run: str) -> None:
        standing = Standing([])
        length = 0
        current = self._client.get_workflow_handle(RULES_ID, run_id=run)
        async for event in current.fetch_history_events(rpc_timeout=SOON):
            length += 1
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                (before,) = await self._decode(event.workflow_execution_started_event_attributes.input.payloads)
                standing = Standing(before)
            elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
                for each in await self._decode(event.workflow_execution_signaled_event_attributes.input.payloads):
                    standing.take(from_wire(each, RuleChange))
        self._known, self.standing = (run, length), standing

    async def _decode(self, payloads: Any) -> list[Any]:
        return await self._client.data_converter.decode(payloads)
