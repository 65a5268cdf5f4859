"""The chronicle of a daemon: what its store's journals say as they grow, told to the log and counted for the metrics.

Rules
- It tells who, what and how it went: no argument, no text and no reason, so no secret.
- It hears entries of every process of the store, once each, in their order. It reads the store only for what it logs.
- Durations count from what it heard itself. What began before it is counted, and not measured.
"""

from collections import Counter, OrderedDict
from collections.abc import Iterable
from datetime import datetime
from functools import singledispatchmethod
from typing import Any, Final

from supervisor.core import events as e
from supervisor.core.errors import StoreError
from supervisor.core.rows import JournalEntry
from supervisor.core.usage import NOTHING, spent_by
from supervisor.seam.store import Store
from supervisor.system.logs import FactLog

log = FactLog("supervisor.journal")

KEPT: Final = 100_000
"""Beginnings whose ends are awaited. The oldest is forgotten: its duration is not measured."""


class Measured:
    """How many have ended, by how they ended, and how long those took whose beginning was heard."""

    def __init__(self) -> None:
        self.ended: Counter[str] = Counter()
        self.measured: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}
        self._began: OrderedDict[Any, datetime] = OrderedDict()

    def begin(self, key: Any, at: datetime) -> None:
        self._began[key] = at
        if len(self._began) > KEPT:
            self._began.popitem(last=False)

    def end(self, key: Any, how: str, at: datetime) -> float | None:
        """Return the seconds since the beginning; None if it was not heard."""
        self.ended[how] += 1
        if (began := self._began.pop(key, None)) is None:
            return None
        seconds = max(0.0, (at - began).total_seconds())
        self.measured[how] += 1
        self.seconds[how] = self.seconds.get(how, 0.0) + seconds
        return seconds


class Chronicle:
    """`hear` takes the entries of every commit of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.runs, self.calls, self.approvals = Measured(), Measured(), Measured()
        self.spent = NOTHING
        """What was spent on models."""

    def hear(self, entries: Iterable[JournalEntry]) -> None:
        """Count entries, and log them."""
        for entry in entries:
            self._take(entry.event, entry.session)

    @singledispatchmethod
    def _take(self, event: e.AnyEvent, session: str) -> None:
        """Take one entry. An event without a method below is neither told nor counted."""

    @_take.register
    def _run_began(self, event: e.RunStarted, session: str) -> None:
        self.runs.begin(session, event.at)
        self._tell("run.began", session)

    @_take.register
    def _run_ended(self, event: e.RunFinished, session: str) -> None:
        seconds = self.runs.end(session, event.kind, event.at)
        self._tell("run.ended", session, outcome=event.kind, **_shown(seconds))

    @_take.register
    def _asked(self, event: e.ToolCallRequested | e.QuestionAsked, session: str) -> None:
        if (approval := e.approval_in(event)) is not None:
            self.approvals.begin(approval, event.at)
            self._tell("approval.asked", session, approval=approval)

    @_take.register
    def _decided(self, event: e.ApprovalDecided | e.QuestionAnswered, session: str) -> None:
        decision = event.decision if isinstance(event, e.ApprovalDecided) else "answer"
        seconds = self.approvals.end(event.approval, decision, event.at)
        shown = {"decision": decision, "by": event.by, "channel": event.channel, **_shown(seconds)}
        self._tell("approval.decided", session, approval=event.approval, **shown)

    @_take.register
    def _call_began(self, event: e.ToolCallStarted, session: str) -> None:
        self.calls.begin((session, event.operation), event.at)

    @_take.register
    def _call_ended(self, event: e.ToolCallFinished, session: str) -> None:
        self.calls.end((session, event.operation), event.kind, event.at)

    @_take.register
    def _spent(self, event: e.UsageSpent, session: str) -> None:
        self.spent += spent_by(event.usage)

    @_take.register
    def _posted(self, event: e.CardPosted, session: str) -> None:
        self._tell("card.posted", session, approval=event.approval, channel=event.channel)

    @_take.register
    def _refused(self, event: e.DecisionRefused, session: str) -> None:
        self._tell("decision.refused", session, approval=event.approval, by=event.by, channel=event.channel)

    @_take.register
    def _command_refused(self, event: e.CommandRefused, session: str) -> None:
        self._tell("command.refused", event.session, act=event.act, by=event.by)

    def _tell(self, fact: str, session: str | None, **values: Any) -> None:
        if log.is_heard:
            log.info(fact, session=session, agent=None if session is None else self._agent_of(session), **values)

    def _agent_of(self, session: str) -> str | None:
        try:
            row = self._store.get_session(session)
        except StoreError:  # the writer that called will find it out by itself
            return None
        return None if row is None else row.agent


def _shown(seconds: float | None) -> dict[str, float]:
    return {} if seconds is None else {"seconds": round(seconds, 3)}
