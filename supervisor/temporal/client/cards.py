"""Cards of a namespace: a server claims a card before it posts it, so that two servers do not post the same one. In the
same way it claims what it tells people again of an approval.

A card is a workflow `card~APPROVAL~TARGET`. Its history says who began to post the card, which one was posted, and that
it was retired, in one order for all servers. So it is also what a server that has lost its mirror finds its cards by.

Rules
- The first server that begins posts. If it has said nothing for STALE seconds, the next one that begins takes over: it
  searches for the card, as after a crash, before it posts one.
- A server that is not the first waits until the card is there, and then shows it as its own: each of them may renew
  and retire it.
- The namespace knows of a card before the mirror does.
- A message about a step is claimed by a workflow `told~APPROVAL~TARGET~STEP`, which ends when the message was sent. So
  each step is sent once, however many servers let it come; one that has lost its mirror does not send it again.
- STALE makes a claim a lease, which is our own: nothing of Temporal says that a server which began to post has died,
  since posting is no activity of a worker. It is no lease on the approval or the session: a decision needs none. At
  stake is one card: a server that takes longer than STALE, and is not dead, may post a second one.
"""

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import anyio
import msgspec
from msgspec.structs import replace
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from supervisor.core import events as e
from supervisor.core.approvals.state import Left
from supervisor.core.errors import ServerError, ServerUnavailable
from supervisor.core.events.asking import CardBegun, CardEvent, ReminderEvent, target_of
from supervisor.core.store_urls import TemporalStore
from supervisor.core.values import Approval
from supervisor.runtime.lifecycle.runner import Runner
from supervisor.runtime.people.posting import LocalCards
from supervisor.runtime.reading.inputs import Inputs
from supervisor.seam.channel import Channel
from supervisor.system.logs import FactLog
from supervisor.temporal.connection import SOON, server_errors
from supervisor.temporal.mirror.store import FileFeed
from supervisor.temporal.wire import CARD, ONCE, QUEUE, card_id, to_wire, told_id

log = FactLog(__name__)

STALE: Final = timedelta(seconds=40)
"""After this time, a server that began to post a card counts as dead: a channel has 30 s for one (Channel)."""
_RUNNING_CARDS: Final = f'WorkflowType = "{CARD}" AND ExecutionStatus = "Running"'
AT_ONCE: Final = 20
"""Cards that are read at the same time."""
LOOK_SECONDS: Final = 0.3
"""Seconds between two looks at a card that another server is posting."""


TOLD_FOR: Final = timedelta(days=1)
"""The longest time for which a message that was begun, and never sent, stays claimed."""


def _kind_of(event: CardEvent | ReminderEvent) -> Literal["posted", "retired"] | None:
    """Return what becomes of a claim: its card stands, or it is over. None: it goes on as it was."""
    match event:
        case e.CardPosted():
            return "posted"
        case e.CardRetired() | e.ReminderSent():
            return "retired"
        case _:
            return None


class CardNote(msgspec.Struct, frozen=True, kw_only=True):
    """The input of a card's workflow, and its signals. `by`: the server."""

    kind: Literal["begun", "posted", "retired"]
    by: str
    approval: str
    channel: str
    place: str = ""
    is_notice: bool = False
    card: str = ""
    is_whole: bool = True
    step: int = 0
    """The step that a message tells of; 0 for a card."""


class CardState:
    """What the history of a card says."""

    def __init__(self) -> None:
        self.holder = ""
        self.begun_at: datetime | None = None
        self.earlier: datetime | None = None
        """When the server before the holder began, which may have posted the card."""
        self.posted: CardNote | None = None
        self.over_at: datetime | None = None
        """When the card was retired, or the message was sent."""
        self.first: CardNote | None = None

    def take(self, note: CardNote, at: datetime) -> None:
        self.first = self.first or note
        if note.kind == "posted":
            self.posted = note
        elif note.kind == "retired":
            self.over_at = at
        elif note.kind == "begun" and self.posted is None and (self.begun_at is None or at - self.begun_at > STALE):
            self.holder, self.earlier, self.begun_at = note.by, self.begun_at, at


class NamespaceCards(LocalCards):
    """The host of the cards of a server; see CardHost. `channels`: those that it serves."""

    def __init__(
        self, runner: Runner, inputs: Inputs, client: Client, named: TemporalStore, channels: Iterable[Channel]
    ) -> None:
        super().__init__(runner, inputs)
        self._client = client
        self._named = named
        self._runner = runner
        self._claimed = {each.name for each in channels if each.keeps_cards}
        """The channels whose cards are claimed. A card of another one ends with its server."""

    async def claim(self, approval: Approval, begun: CardBegun) -> Left | None:
        note = self._note("begun", begun)
        key = card_id(approval.id, target_of(begun))
        with server_errors(self._named, maybe_done=True):
            try:
                await self._client.start_workflow(
                    CARD, to_wire(note), id=key, task_queue=QUEUE, id_reuse_policy=ONCE, rpc_timeout=SOON
                )
                left = None
            except WorkflowAlreadyStartedError:
                left = await self._wait_for(key, note)
        await super().note(approval, begun)
        return left

    async def _wait_for(self, key: str, note: CardNote) -> Left | None:
        """Wait until another server has posted a card, or this one is to take over. Return what is left of it."""
        while True:
            state = await self._read(key)
            if state.posted is not None:
                return Left(state.posted.card)
            if state.holder == self._me:
                return None if state.earlier is None else Left(begun_at=state.earlier)
            if state.begun_at is None or self.now() - state.begun_at > STALE:
                await self._signal(key, note)
            await anyio.sleep(LOOK_SECONDS)

    async def note(self, approval: Approval, event: CardEvent | ReminderEvent) -> None:
        if (kind := _kind_of(event)) is not None and event.channel in self._claimed:
            try:
                with server_errors(self._named, maybe_done=True):
                    await self._signal(_key(approval, event), self._note(kind, event))
            except ServerError as error:
                if kind == "posted" or isinstance(error, ServerUnavailable):
                    log.error("card.not_recorded", approval=approval.id, reason=str(error))
        await super().note(approval, event)

    async def begin_to_tell(
        self, due: Sequence[Approval], where: Mapping[str, Any], lasts: timedelta
    ) -> list[ReminderEvent | None]:
        found = await super().begin_to_tell(due, where, lasts)
        if where["channel"] in self._claimed:
            with server_errors(self._named, maybe_done=True):
                for place, approval in enumerate(due):
                    found[place] = found[place] or await self._begin(approval, where)
        return found

    async def _begin(self, approval: Approval, where: Mapping[str, Any]) -> ReminderEvent | None:
        """Claim the message about the last step of an approval. Return what another server has said of it, if that one
        sends it."""
        at, due = self.now(), approval.reminded_at or self.now()
        begun = e.ReminderBegun(at=at, approval=approval.id, due=due, by=self._me, **where)
        key, note = told_id(approval.id, target_of(begun), approval.step), self._note("begun", begun)
        note = replace(note, step=approval.step)
        try:
            await self._client.start_workflow(
                CARD,
                to_wire(note),
                id=key,
                task_queue=QUEUE,
                id_reuse_policy=ONCE,
                execution_timeout=TOLD_FOR,
                rpc_timeout=SOON,
            )
        except WorkflowAlreadyStartedError:
            state = await self._read(key)
            if state.over_at is None and state.begun_at is not None and at - state.begun_at > STALE:
                await self._signal(key, note)
                state = await self._read(key)
            if state.over_at is not None:
                return e.ReminderSent(at=state.over_at, approval=approval.id, due=due, **where)
            if state.begun_at is not None and state.holder != self._me:
                return replace(begun, at=state.begun_at, by=state.holder)
        return None

    async def find_lost(self, feed: FileFeed) -> None:
        """Note in the mirror the cards that it does not know of: it was lost, or other servers have posted them."""
        found, limit = list[tuple[str, CardEvent]](), anyio.CapacityLimiter(AT_ONCE)
        failed: RPCError | None = None

        async def read(key: str) -> None:
            nonlocal failed
            try:
                state = await self._read(key)
            except RPCError as error:
                failed = error
                tasks.cancel_scope.cancel()
                return
            finally:
                limit.release_on_behalf_of(key)
            if state.first is not None:
                found.extend(self._lost(state, state.first))

        with server_errors(self._named):
            keys = [each.id async for each in self._client.list_workflows(_RUNNING_CARDS)]
            async with anyio.create_task_group() as tasks:
                for key in keys:
                    await limit.acquire_on_behalf_of(key)
                    tasks.start_soon(read, key)
            if failed is not None:
                raise failed
        if found:
            await feed.note(found)

    def _lost(self, state: CardState, first: CardNote) -> Iterator[tuple[str, CardEvent]]:
        where: dict[str, Any] = {"channel": first.channel, "place": first.place, "is_notice": first.is_notice}
        approval = self._runner.journal.store.get_approval(first.approval)
        if approval is None or state.begun_at is None or first.step:
            return
        event: CardEvent = e.CardBegun(at=state.begun_at, approval=first.approval, **where)
        if state.posted is not None:
            whole = state.posted.is_whole
            event = e.CardPosted(
                at=self.now(), approval=first.approval, card=state.posted.card, is_whole=whole, **where
            )
        if target_of(event) not in self.find_left(approval):
            yield approval.session, event

    def _note(self, kind: Any, event: CardEvent | ReminderEvent) -> CardNote:
        said = {name: getattr(event, name) for name in CardNote.__struct_fields__ if hasattr(event, name)}
        return CardNote(**{**said, "kind": kind, "by": self._me})

    async def _signal(self, key: str, note: CardNote) -> None:
        await self._client.get_workflow_handle(key).signal("note", to_wire(note), rpc_timeout=SOON)

    async def _read(self, key: str) -> CardState:
        state = CardState()
        async for note, at in self._notes(key):
            state.take(note, at)
        return state

    async def _notes(self, key: str) -> AsyncIterator[tuple[CardNote, datetime]]:
        async for event in self._client.get_workflow_handle(key).fetch_history_events(rpc_timeout=SOON):
            if event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                payloads = event.workflow_execution_started_event_attributes.input.payloads
            elif event.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
                payloads = event.workflow_execution_signaled_event_attributes.input.payloads
            else:
                continue
            for document in await self._client.data_converter.decode(payloads):
                yield msgspec.convert(document, CardNote), event.event_time.ToDatetime(UTC)


def _key(approval: Approval, event: CardEvent | ReminderEvent) -> str:
    """Return the id of the workflow that claims what an event is about."""
    if isinstance(event, e.ReminderSent):
        return told_id(approval.id, target_of(event), approval.step)
    return card_id(approval.id, target_of(event))
