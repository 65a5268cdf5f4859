"""The fold: a session's state is what its events say, live or replayed.

`apply` is the only way in which a state changes. It asks the tables first, so that an illegal event raises and changes
nothing. The state keeps the events themselves rather than copies of their fields.

Rules
- `order` is the order in which results reach the agent: the order of the events that have them. That an operation was
  abandoned is a result, too.
- `begun` and `answered` are places in the journal. A result may be given to the agent again only when everything that
  had begun before it was asked for again; else an agent that races its operations would take another path. An operation
  begins when the agent asks for it: after the last result that it had been given by then, wherever its event is.
- Attempts in a row that append nothing else are counted (`barren`), and bounded by the runner (R5).
- A StateSaved forgets the operations that are before it, but no call without its result (T1), and no open
  question.
- A draft has its own changes over the live maps, which stay unchanged until it lands (core/sessions/overlay.py): the
  cost of a commit does not depend on the age of the session.
- A RunRestarted forgets what the next attempt does again, sets operations aside (`kept`) that have a result but no
  place in the order any more, and opens timers again (core/sessions/restarts.py).

The module is longer than 400 lines because one fold handles every event.
"""

from collections.abc import Mapping, MutableMapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.approvals.state import ASKS
from supervisor.core.blocking import Block
from supervisor.core.budgets import ASIDE, KEY
from supervisor.core.calls.rules import Rule, is_about
from supervisor.core.encoding import JSON_NULL
from supervisor.core.errors import IllegalEvent, StoreUnreadable
from supervisor.core.events import advance
from supervisor.core.events.kinds import ASK, CALL
from supervisor.core.ids import RULES, SCHEDULES, split_operation_id
from supervisor.core.limits import KEY as LIMIT
from supervisor.core.sessions import overlay
from supervisor.core.sessions.asides import NO_BUDGETING, OF_BUDGETS, Budgeting
from supervisor.core.sessions.heard import Heard, heard, with_heard
from supervisor.core.sessions.machine import (
    ENDS_OPERATION,
    MOVES_OPERATION,
    OPERATION,
    RUN,
)
from supervisor.core.sessions.operations import Job as Job, Operation as Operation
from supervisor.core.sessions.overlay import EMPTY, Entries, ListOverlay, MapOverlay, list_over, map_over, map_with
from supervisor.core.sessions.timetable import Planned, note_delivery, note_schedule
from supervisor.core.usage import NOTHING, Spent, spent_by

_KINDS: dict[type[Any], str] = {e.ToolCallRequested: CALL, e.QuestionAsked: ASK}
WAKING: Final = e.having("wakes")
"""Events that end a passivation, whatever the run was waiting for."""
MOST_SAID_CHARACTERS: Final = 10_000
"""Characters of an agent's last words."""
_NO_PROGRESS: Final = e.having("no progress")
"""Events that are no sign of progress of an attempt: a daemon posts its cards again after every crash."""


_NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)


class SessionState(msgspec.Struct, kw_only=True):
    """What is known of one session. Changed by `apply` only; a commit may refuse the changes of a `draft`.

    Drafts share what they do not overlay: a Mapping here is replaced, never changed.
    """

    id: str
    phase: str = ""
    length: int = 0
    latest: datetime = _LONG_AGO
    """The latest instant of any event, which is not that of the last one if the clock was set back."""
    created: e.SessionCreated | None = None
    input: Raw = JSON_NULL
    first_input: Raw = JSON_NULL
    """The input of the first run; a turn's input is the message that began it."""
    runs: int = 0
    """How many have begun; an import counts as the first."""
    origin: e.ImportStarted | None = None
    forked: e.SessionForked | None = None
    """The end of the latest copy, in a session that begins with one."""
    imported: int = 0
    """How many messages were imported."""
    inbox: MutableMapping[str, e.MessageReceived] = EMPTY
    """Messages that no run has received yet, in the order in which they came."""
    heard: Mapping[str, Heard] = _NOTHING
    """The latest messages and chat words, by their ids."""
    jobs: MutableMapping[str, Job] = EMPTY
    """Background jobs, including those that have ended; they outlive the run that began them."""
    attempts: int = 0
    version: str | None = None
    """The version of the run's first attempt; None until that begins. Every attempt runs this version."""
    blocked: Block | None = None
    """Why today's code cannot follow the run; None again when an attempt has asked for everything."""
    marks: frozenset[str] = frozenset()
    """Named changes of its code whose path the run takes (Context.patched)."""
    barren: int = 0
    operations: MutableMapping[str, Operation] = EMPTY
    order: Entries[str] = []
    kept: MutableMapping[str, Operation] = EMPTY
    """Operations with a result from before a restart, which the agent has not asked for again yet."""
    restarts: tuple[datetime, ...] = ()
    """When the run was restarted."""
    back_off: e.RunRestarted | None = None
    children: MutableMapping[str, e.ChildEnded | None] = EMPTY
    live_children: int = 0
    """How many children have not ended."""
    saved: Raw | None = None
    counts: Mapping[str, int] = _NOTHING
    floor: int = 0
    saves: int = 0
    waiting_for: tuple[str, ...] | None = None
    cancel: e.CancelRequested | None = None
    outcome: e.RunFinished | None = None
    spent: Spent = NOTHING
    """What its runs have spent on models, of all runs."""
    budgeting: Budgeting = NO_BUDGETING
    uses: Mapping[str, int] = _NOTHING
    """How many calls have used each allowance that is counted in this journal, by the id of the rule."""
    said: str = ""
    """The last MOST_SAID_CHARACTERS of what the agent has said in this run: a parent may go on from them."""

    @property
    def facts(self) -> e.SessionCreated:
        """The event that created the session; every session in a store has it."""
        if self.created is None:
            raise IllegalEvent(f"session {self.id} has no beginning")
        return self.created

    @property
    def is_open(self) -> bool:
        return self.phase in ("open", "stopping")

    @property
    def open_children(self) -> list[str]:
        return [child for child, ended in self.children.items() if ended is None]

    def pending_approvals(self) -> list[tuple[str, str]]:
        """Return (operation, approval) for each call and question that waits for a person's decision."""
        found = []
        for operation, record in (*self.operations.items(), *self.budgeting.asides.items()):
            if (approval := record.pending_approval) is not None:
                found.append((operation, approval))
        return found

    @property
    def timers(self) -> list[tuple[datetime, datetime]]:
        """Return when the run's timers are due and its approvals expire, each with the instant at which it began; in a
        back-off, when that is over."""
        if self.back_off is not None:
            return [(self.back_off.due_at, self.back_off.at)]
        return [(due_at, record.began_at) for record in self.operations.values() if (due_at := record.due_at)]

    def record_of(self, operation: str) -> Operation | None:
        """Return an operation, or a question about a budget, which is none."""
        return self.operations.get(operation) or self.budgeting.asides.get(operation)

    def is_answered(self, key: str) -> bool:
        """Return whether the event for which a passivated run waits under this key has come."""
        if key.startswith((KEY, LIMIT)):
            return False  # it is no event of this journal, and after it the runner wakes the run
        if key == e.MESSAGE:
            return bool(self.inbox)
        if key in self.children:
            return self.children[key] is not None
        operation = self.operations.get(key)
        if operation is None or operation.wants_evidence:
            return True
        return not (operation.is_asking or operation.state == "waiting")

    def draft(self) -> "SessionState":
        """Return a state for further events that leaves this one unchanged."""
        draft: SessionState = self.__copy__()  # type: ignore[attr-defined] # what copy.copy calls after a search
        if self.length > overlay.SMALL:
            draft.operations = map_over(self.operations) if self.operations else EMPTY
            draft.order = list_over(self.order)
            draft.children = map_over(self.children) if self.children else EMPTY
            draft.inbox = map_over(self.inbox) if self.inbox else EMPTY
            draft.kept = map_over(self.kept) if self.kept else EMPTY
            draft.jobs = map_over(self.jobs) if self.jobs else EMPTY
            return draft
        # So few events make small maps: they are copied here, without a call for each. Every commit makes drafts.
        draft.operations = {**self.operations} if self.operations else EMPTY
        draft.order = [*self.order]
        draft.children = {**self.children} if self.children else EMPTY
        draft.inbox = {**self.inbox} if self.inbox else EMPTY
        draft.kept = {**self.kept} if self.kept else EMPTY
        draft.jobs = {**self.jobs} if self.jobs else EMPTY
        return draft

    def land(self) -> None:
        """Merge the changes of a draft into the maps below it. The state below must not be used any more: this one
        replaces it."""
        if self.length <= overlay.SMALL:  # a draft of so few events has copies
            return
        # isinstance is slow for an abstract class
        if type(self.operations) is MapOverlay:
            self.operations = self.operations.merge()
        if type(self.order) is ListOverlay:
            self.order = self.order.merge()
        if type(self.children) is MapOverlay:
            self.children = self.children.merge()
        if type(self.inbox) is MapOverlay:
            self.inbox = self.inbox.merge()
        if type(self.kept) is MapOverlay:
            self.kept = self.kept.merge()
        if type(self.jobs) is MapOverlay:
            self.jobs = self.jobs.merge()

    def apply(self, event: e.AnyEvent) -> None:
        """Apply one event; raises IllegalEvent, and changes nothing, if the tables forbid it."""
        phase = advance(RUN, self.phase, event)
        self._take(event)
        self.phase = phase
        self.length += 1
        if event.at > self.latest:
            self.latest = event.at
        if type(event) not in _NO_PROGRESS:
            self.barren = 0
        if type(event) in SAYS and (words := words_of(event)) is not None:
            self.said = joined_words(self.said, words)
        elif type(event) in e.BEGINS_RUN:
            self.said = ""

    def lengthen(self, before: e.AnyEvent, longer: e.AnyEvent) -> None:
        """Take what was added to the text of the last event, which is not written yet."""
        if (words := words_of(longer)) is not None:
            self.said = (self.said + words.removeprefix(words_of(before) or ""))[-MOST_SAID_CHARACTERS:]

    def _take(self, event: Any) -> None:
        kind = type(event)
        moves = kind in MOVES_OPERATION
        if event.operation.startswith(ASIDE) if moves else kind in OF_BUDGETS:
            self.budgeting = self.budgeting.after(event, self.length)
        elif moves:
            self._advance_operation(event)
        else:
            self._note(event)
        if isinstance(event, e.SLEEPING):
            self.waiting_for = event.waiting_for
            self.back_off = event if isinstance(event, e.RunRestarted) else None
        elif self.waiting_for is not None and (type(event) in WAKING or e.answers(event) in self.waiting_for):
            self.waiting_for = self.back_off = None

    def _note(self, event: e.AnyEvent) -> None:  # noqa: C901 # one case per kind of fact, none with logic
        match event:
            case e.RunFinished():
                self.outcome = event
                self.blocked = None
            case e.RunBlocked():
                self.blocked = event.block
            case e.RunUnblocked():
                self.blocked = None
            case e.ChildEnded():
                if self.children.get(event.child, event) is not None:
                    raise IllegalEvent(f"child {event.child} of {self.id} is not open")
                self.children[event.child] = event
                self.live_children -= 1
            case e.SessionCreated():
                self.created = event
            case e.RunStarted():
                self._begin_run(event)
            case e.ImportStarted():
                self.origin = event
                self.runs = 1
            case e.MessageImported():
                self.imported += 1
            case e.MessageReceived():
                self.inbox = map_with(self.inbox, event.message, event)
                self.heard = with_heard(self.heard, event.message, heard(event.text, event.by))
            case e.WordHeard():
                self.heard = with_heard(self.heard, event.message_id, heard(event.text, event.by, event.approvals))
            case e.MessageUndelivered():
                self._take_message(event.message)
            case e.AttemptStarted():
                self.attempts += 1
                self.barren += 1
                self.version = self.version or event.version
            case e.JobStarted() | e.JobEnded():
                self._note_job(event)
            case e.RuleUsed():
                self.uses = after_use(self.uses, event)
            case e.UsageSpent():
                self.spent += spent_by(event.usage)
            case e.StateSaved():
                self._forget(event)
            case e.PatchMarked():
                self.marks |= {event.name}
            case e.RunRestarted():
                self._restart(event)
            case e.CancelRequested():
                self.cancel = event
            case e.SessionForked():
                self.forked, self.version, self.attempts = event, event.version, 0
            case _:
                pass

    def _begin_run(self, event: e.RunStarted) -> None:
        """A run has its own operations: those of the run before it are only in the journal. Only a retry goes on with
        them."""
        if event.again is not None:
            self._begin_again(event.again)
            return
        if event.message is not None:
            self._take_message(event.message)
            if (known := self.heard.get(event.message)) is not None:
                self.heard = {**self.heard, event.message: known._replace(has_begun_turn=True)}
        fresh = SessionState(id=self.id)
        for name in _OF_A_RUN:
            setattr(self, name, getattr(fresh, name))
        self.saves += 1
        self.runs += 1
        if self.budgeting is not NO_BUDGETING:
            self.budgeting = self.budgeting.after(event, self.length)
        self.input = event.input
        if self.runs == 1:
            self.first_input = event.input

    def _begin_again(self, again: e.Again) -> None:
        for child in again.children:
            if self.children.get(child) is None:
                raise IllegalEvent(f"sub-agent {child} of {self.id} has not ended; a retry cannot go on with it")
            self.children[child] = None
            self.live_children += 1
        self._put_aside(again)
        self.outcome = self.cancel = self.blocked = None
        self.restarts = ()
        self.runs += 1

    def _take_message(self, message: str) -> None:
        """Each message leaves the inbox once: to a `receive`, to the turn that it begins, or as undelivered."""
        if message not in self.inbox:
            raise IllegalEvent(f"message {message} is not in the inbox of {self.id}")
        del self.inbox[message]

    def _note_job(self, event: e.JobStarted | e.JobEnded) -> None:
        known = self.jobs.get(event.job)
        if isinstance(event, e.JobStarted) and known is None:
            self.jobs = map_with(self.jobs, event.job, Job(started=event))
        elif isinstance(event, e.JobEnded) and known is not None and known.ended is None:
            self.jobs[event.job] = Job(started=known.started, ended=event)
        else:
            raise IllegalEvent(f"job {event.job} of {self.id} cannot have this event now: {event!r}")

    def _advance_operation(self, event: Any) -> None:
        operation: str = event.operation
        old = self.operations.get(operation)
        state = advance(OPERATION, "" if old is None else old.state, event)
        if old is None and (operation in self.kept) is not isinstance(event, e.OperationRecalled):
            raise IllegalEvent(f"{operation} of {self.id} is recalled if and only if a restart has kept it: {event!r}")
        if isinstance(event, e.OperationRecalled):
            begun = self._place_after(event.given)
            recalled = replace(self.kept[operation], begun=begun, answered=self.length)
            self.operations = map_with(self.operations, operation, recalled)
            del self.kept[operation]
            self.order.append(operation)
            return
        if old is None:
            kind = _KINDS.get(type(event)) or event.kind
            old = Operation(state="", kind=kind, begun=self._place_after(event.given))
        if isinstance(event, e.OperationFinished) and event.message is not None:
            self._take_message(event.message)
        new = old.moved(state, event, self.length)
        if type(event) in ENDS_OPERATION:
            self.order.append(operation)
        if self.operations is EMPTY:
            self.operations = {operation: new}
        else:
            self.operations[operation] = new
        if (child := e.begins(event)) is not None and child not in self.children:
            self.children = map_with(self.children, child, None)
            self.live_children += 1

    def _place_after(self, given: int | None) -> int:
        """Return the place in the journal of the last of the first `given` results."""
        if given is None:
            return self.length
        last = min(given, len(self.order))
        return self.operations[self.order[last - 1]].answered if last else 0

    def _forget(self, event: e.StateSaved) -> None:
        kept = {}
        for operation, record in self.operations.items():
            if not _is_forgotten(operation, event):
                kept[operation] = record
            elif type(record.request) in ASKS and record.is_open:
                raise IllegalEvent(f"{operation} has no result yet and cannot be forgotten")
        for operation in [operation for operation in self.kept if _is_forgotten(operation, event)]:
            del self.kept[operation]
        self.saved = event.state
        self.counts = event.counts
        self.floor = event.floor
        self.saves += 1
        self.operations = kept
        self.order = [operation for operation in self.order if operation in self.operations]

    def _restart(self, event: e.RunRestarted) -> None:
        self._put_aside(event)
        self.restarts = (*self.restarts, event.at)

    def _put_aside(self, event: e.RunRestarted | e.Again) -> None:
        aside = {*event.forgotten, *event.kept}
        for operation in aside:
            record = self.operations.get(operation)
            if record is None or record.state in ("asked", "executing"):
                raise IllegalEvent(
                    f"{operation} is not known, asks a person or is executing; a restart cannot set it aside"
                )
        open_again = {}
        for operation in event.reopened:
            timer = self.operations.get(operation)
            if timer is None or operation in aside or not isinstance(timer.request, e.OperationStarted):
                raise IllegalEvent(f"{operation} is not a timer, or is set aside; a restart cannot open it again")
            open_again[operation] = replace(timer, state="waiting", answered=0, result=None)
        for operation in event.kept:
            self.kept = map_with(self.kept, operation, _kept(self.operations[operation]))
        left = {name: record for name, record in self.operations.items() if name not in aside}
        self.operations = {**left, **open_again}
        self.order = [name for name in self.order if name not in aside and name not in open_again]


_OF_A_RUN = (
    "attempts",
    "version",
    "blocked",
    "marks",
    "operations",
    "order",
    "kept",
    "restarts",
    "children",
    "live_children",
    "saved",
    "counts",
    "floor",
    "cancel",
    "outcome",
)
"""Fields of a session's state that belong to its latest run only."""


def _is_forgotten(operation: str, saved: e.StateSaved) -> bool:
    """Return whether a save forgets an operation."""
    key, count = split_operation_id(operation)
    return count <= saved.counts.get(key, saved.floor)


def _kept(record: Operation) -> Operation:
    """Return an operation with its result only; for an abandoned call, that is the `interrupted` result."""
    result = record.result
    if isinstance(result, e.OperationAbandoned):
        result = e.ToolCallFinished(
            at=result.at,
            operation=result.operation,
            kind="interrupted",
            content=result.content,
            details=result.details,
        )
    return replace(record, state="finished", result=result)


class Rulebook(SessionState, kw_only=True):
    """The standing rules of a store: the fold of the one journal that belongs to no session, by the same mechanism.

    That journal also has the commands that were refused, each kind once for each person. They change no rule."""

    standing: dict[str, Rule] = {}
    """By id, in the order in which they were added."""
    on: dict[tuple[str, str | None], tuple[Rule, ...]] = {}
    """The same by tool and scope: few of them concern one call."""
    made: dict[str, tuple[e.RuleAdded, ...]] = {}
    """The decisions that have made or confirmed a standing rule, by its id."""
    refused: MutableMapping[tuple[str, str], None] = EMPTY
    """The refused commands: what was refused, and to whom."""

    def find(self, tool: str, root: str) -> tuple[Rule, ...]:
        """Return the rules on a tool that hold in a tree."""
        return (*self.on.get((tool, None), ()), *self.on.get((tool, root), ()))

    def find_claimed(self, tool: str, root: str) -> tuple[Rule, ...]:
        """Return the rules that are about a call with claims (core/calls/rules.py), and hold in a tree."""
        found = (rules for (_, scope), rules in self.on.items() if scope in (None, root))
        return tuple(rule for rules in found for rule in rules if is_about(rule, tool, (tool,)))

    def find_same(self, rule: Rule) -> Rule | None:
        """Return the standing rule with the same meaning, if there is one."""
        known = self.on.get((rule.tool, rule.session), ())
        return next((each for each in known if each.meaning == rule.meaning), None)

    def find_counted(self, rule: Rule) -> tuple[Rule, ...]:
        """Return the standing rules with the same meaning, each with uses of its own."""
        known = self.on.get((rule.tool, rule.session), ())
        return tuple(each for each in known if replace(each, id=rule.id).meaning == rule.meaning)

    def draft(self) -> "Rulebook":
        standing, on, made = self.standing.copy(), self.on.copy(), self.made.copy()
        return replace(self, standing=standing, on=on, made=made, refused=map_over(self.refused))

    def land(self) -> None:
        if type(self.refused) is MapOverlay:
            self.refused = self.refused.merge()

    def apply(self, event: e.AnyEvent) -> None:
        match event:
            case e.RuleAdded(rule=Rule(id=str(name))) if name not in self.standing or self._confirms(event, name):
                if name not in self.standing:
                    rule = replace(event.rule, by=event.by, added_at=event.at, approval=event.approval)
                    self.standing[name] = rule
                    self.on[rule.tool, rule.session] = (*self.on.get((rule.tool, rule.session), ()), rule)
                if event.approval is not None:
                    self.made[name] = (*self.made.get(name, ()), event)
            case e.RuleRevoked(rule=name) if name in self.standing:
                rule = self.standing.pop(name)
                self.made.pop(name, None)
                rest = tuple(each for each in self.on.pop((rule.tool, rule.session)) if each is not rule)
                if rest:
                    self.on[rule.tool, rule.session] = rest
            case e.RuleUsed():
                self.uses = after_use(self.uses, event)
            case e.CommandRefused():
                self.refused = map_with(self.refused, (event.act, event.by), None)
            case _:
                raise IllegalEvent(f"this event cannot be in the journal of the store itself: {event!r}")
        self.length += 1
        self.latest = max(self.latest, event.at)

    def _confirms(self, event: e.RuleAdded, name: str) -> bool:
        """Return whether the event of a rule that stands is that of another decision for the same."""
        return event.approval is not None and event.rule.meaning == self.standing[name].meaning


class Timetable(SessionState, kw_only=True):
    """The schedules of a store, and what has become of their instants (core/sessions/timetable.py); and which sessions
    of triggers were pruned."""

    plans: dict[str, Planned] = {}
    """By name, in the order in which they were added."""
    former: dict[str, datetime] = {}
    """The last instants of removed schedules, by name."""
    delivered: MutableMapping[str, datetime] = EMPTY
    """The pruned sessions of triggers, and when they were pruned, the oldest first: at most MOST_DELIVERIES, and none
    for longer than KEPT_DELIVERIES."""

    def draft(self) -> "Timetable":
        plans, former = self.plans.copy(), self.former.copy()
        return replace(self, plans=plans, former=former, delivered=map_over(self.delivered))

    def land(self) -> None:
        if type(self.delivered) is MapOverlay:
            self.delivered = self.delivered.merge()

    def apply(self, event: e.AnyEvent) -> None:
        if isinstance(event, e.DeliveryPruned):
            self.delivered = note_delivery(self.delivered, event)
        else:
            note_schedule(self.plans, self.former, event)
        self.length += 1


_STORE_JOURNALS: Final[Mapping[str, type[SessionState]]] = {RULES: Rulebook, SCHEDULES: Timetable}


def after_use(uses: Mapping[str, int], event: e.RuleUsed) -> Mapping[str, int]:
    """Return how often allowances have been used, after one more use."""
    return {**uses, event.rule: uses.get(event.rule, 0) + 1}


def joined_words(said: str, words: str) -> str:
    """Return the end of what an agent has said with further words, MOST_SAID_CHARACTERS at most."""
    return (f"{said}\n\n{words}" if said else words)[-MOST_SAID_CHARACTERS:]


SAYS: Final = frozenset({e.MessageSent, e.Reported})
"""Events of what an agent says as a whole."""


def words_of(event: e.AnyEvent) -> str | None:
    """Return what an agent said by an event, by a message or a report of a text; None: nothing."""
    if isinstance(event, e.MessageSent) or (isinstance(event, e.Reported) and event.kind == "text"):
        return event.text
    return None


def replay_journal(session: str, events: list[e.AnyEvent]) -> SessionState:
    """Return the state that a journal gives; raises StoreUnreadable if the journal contradicts itself."""
    state = _STORE_JOURNALS.get(session, SessionState)(id=session)
    try:
        for event in events:
            state.apply(event)
    except IllegalEvent as error:
        place = f"entry {state.length + 1} of session {session}"
        raise StoreUnreadable(f"{place} contradicts those before it; the journal is damaged: {error}") from error
    return state
