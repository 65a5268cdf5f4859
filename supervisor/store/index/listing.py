"""The values in lists, made from an entry of the index and the events to which it points.

No text of an agent or a person is kept twice, so a list of a hundred thousand approvals reads as many events. It
decodes only the fields that it shows. The path is the same for many sessions; a caller that reads many rows decodes it
once.

Rules
- An event that this program cannot read stops no list: UNREADABLE replaces its text.
- Secrets are masked here.
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, Final, TypeVar

import msgspec
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.approvals.state import PENDING, read_names
from supervisor.core.budgets import KEY
from supervisor.core.calls.rules import allowances, offer
from supervisor.core.encoding import JSON_NULL
from supervisor.core.errors import StoreUnreadable
from supervisor.core.limits import KEY as LIMIT
from supervisor.core.rows import SessionRow
from supervisor.core.text.masks import hide, hides, mask_arguments, may_hide
from supervisor.core.values import Approval, Evidence, EvidenceKind, HushedBy, Outcome, Urgency, unchanged
from supervisor.store.index.projection import SessionEntry

T = TypeVar("T")

UNREADABLE: Final = "(unreadable)"
"""Replaces the text of an event that this program cannot read."""
_UNDECODABLE: Final = (msgspec.MsgspecError, RecursionError)
_NEVER: Final = datetime.fromtimestamp(0, UTC)


class _Path(msgspec.Struct, frozen=True, gc=False):
    """The fields of a SessionCreated that lists show, and that are the same for many sessions."""

    path: tuple[str, ...] = (UNREADABLE,)


class _Facts(msgspec.Struct, frozen=True, gc=False):
    """The fields of a SessionCreated that approvals show, with defaults for one that cannot be read."""

    root: str = UNREADABLE
    requester: str = UNREADABLE
    cwd: str = UNREADABLE
    requester_roles: tuple[str, ...] = ()


class _Session(_Facts, frozen=True, gc=False):
    """The other fields of it that sessions show."""

    at: datetime = _NEVER
    parent: str | None = None


class _Operation(msgspec.Struct, frozen=True, gc=False):
    """The operation of an entry that asks."""

    operation: str = UNREADABLE


class _Asked(msgspec.Struct, frozen=True, gc=False):
    """The fields of a ToolCallRequested or a QuestionAsked that lists show, with defaults for an unreadable one."""

    at: datetime = _NEVER
    operation: str = UNREADABLE
    tool: str = ""
    arguments: Any = None
    digest: str = UNREADABLE
    patterns: tuple[str | None, ...] = ()
    expires_at: datetime | None = None
    secret: tuple[str, ...] = ()
    editable: bool = True
    command: str | None = None
    claims: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()
    default_values: dict[str, Any] | None = None
    why: str = ""
    note: str = ""
    because: str = ""
    urgency: Urgency | None = None
    question: str | None = None
    choices: tuple[str, ...] | None = None
    schema: dict[str, Any] | None = None
    parameters: msgspec.Raw = JSON_NULL
    preview: float | None = None
    uses: int = 0
    minutes: int = 0


class _Evidence(msgspec.Struct, frozen=True, gc=False):
    """What EvidenceTaken says."""

    at: datetime
    digest: str
    kind: EvidenceKind = "text"
    text: str = ""
    failure: str = ""


class _Reminder(msgspec.Struct, frozen=True, gc=False):
    """What ApprovalReminded or ApprovalHushed says. `by`: of the second one."""

    at: datetime
    by: str | None = None
    reminded_at: datetime | None = None
    escalated_to: tuple[str, ...] = ()
    step: int = 0
    told_in: tuple[str, ...] = ()
    acknowledged: HushedBy | None = None
    snoozed: tuple[HushedBy, ...] = ()


_read_path: Final = msgspec.json.Decoder(_Path).decode
_read_operation: Final = msgspec.json.Decoder(_Operation).decode
_read_facts: Final = msgspec.json.Decoder(_Facts).decode
_read_session: Final = msgspec.json.Decoder(_Session).decode
_read_finished: Final = msgspec.json.Decoder(e.RunFinished | e.ImportStarted).decode
_read_reminder: Final = msgspec.json.Decoder(_Reminder).decode
_read_evidence: Final = msgspec.json.Decoder(_Evidence).decode
_read_json: Final = msgspec.json.Decoder().decode
_read_asked: Final = msgspec.json.Decoder(_Asked).decode
_NO_PATH: Final = _Path()
_NO_OPERATION: Final = _Operation()
_NO_FACTS: Final = _Facts()
_NO_SESSION: Final = _Session()
_NOTHING: Final = _Asked(tool=UNREADABLE)


def read_path(created: bytes) -> tuple[str, ...]:
    """Return the names of the agents from the root to the one whose session this entry begins."""
    return (_read(_read_path, created) or _NO_PATH).path


def read_operation(asked: bytes) -> str:
    """Return the operation of an entry that asks, and decode nothing else of it."""
    return (_read(_read_operation, asked) or _NO_OPERATION).operation


def session_row(entry: SessionEntry, path: tuple[str, ...], created: bytes, finished: bytes | None) -> SessionRow:
    """Return the row for an entry and the bodies to which it points. The path is not read from `created`."""
    facts = _read(_read_session, created) or _NO_SESSION
    end = None if finished is None else _read(_read_finished, finished)
    return SessionRow(
        id=entry.id,
        parent=facts.parent,
        root=entry.root,
        agent=path[-1],
        path=path,
        requester=facts.requester,
        cwd=facts.cwd,
        created_at=facts.at,
        is_asleep=entry.waiting_for is not None,
        due_at=entry.due_at,
        last_at=entry.last_at,
        outcome=None if entry.finished is None else _outcome(end),
        ended_at=None if entry.finished is None else (end.at if end else entry.last_at),
        position=entry.created,
        blocked=entry.blocked,
        runs=entry.runs,
        waits_for_budget=any(key.startswith(KEY) for key in entry.waiting_for or ()),
        waits_for_limit=any(key.startswith(LIMIT) for key in entry.waiting_for or ()),
    )


def as_asked(  # most approvals lack most fields, and each group of fields is looked at once
    approval: str, session: str, position: int, path: tuple[str, ...], created: bytes, body: bytes
) -> Approval:
    """Return an approval as it was when it was asked, with `body`; most of the listed ones are still in that state.

    `created` is the first entry of the session, and needs no shared prefix; the path is not read from it.
    """
    facts, asked = _read(_read_facts, created) or _NO_FACTS, _read(_read_asked, body) or _NOTHING
    arguments = asked.arguments
    # No more than 15 names: for more of them CPython makes a dict for the call, which takes three times as long.
    found = Approval(
        id=approval,
        session=session,
        root_session=facts.root,
        path=path,
        agent=path[-1],
        operation=asked.operation,
        tool=asked.tool,
        arguments=mask_arguments(arguments, asked.secret) if asked.secret else arguments,
        digest=asked.digest,
        cwd=facts.cwd,
        options=offer(asked.patterns, arguments) if asked.question is None and asked is not _NOTHING else (),
        requester=facts.requester,
        status="pending",
        created_at=asked.at,
        position=position,
    )
    if asked.secret or asked.expires_at is not None or facts.requester_roles or asked.preview is not None:
        due = asked.at + timedelta(seconds=asked.preview) if asked.preview is not None else None
        found = replace(found, secret=asked.secret, expires_at=asked.expires_at, evidence_due=due)
        found = replace(found, requester_roles=facts.requester_roles)
    if asked.command is not None or asked.claims or not asked.editable:
        found = replace(found, command=asked.command, claims=asked.claims, editable=asked.editable)
    if asked.defaults or asked.why or asked.because or asked.urgency:
        offered = allowances(asked.patterns, arguments, (asked.uses, asked.minutes))
        found = replace(found, defaults=asked.defaults, urgency=asked.urgency, allowances=offered)
        found = replace(found, why=asked.why, note=asked.note, because=asked.because)
    if asked.default_values is not None:
        found = replace(found, default_values=asked.default_values)
    if asked.question is not None:
        found = replace(found, kind="question", editable=False, question=asked.question)
        found = replace(found, choices=asked.choices, schema=asked.schema)
    elif asked.schema is not None:
        found = replace(found, arguments_schema=asked.schema)
    if asked.parameters is not JSON_NULL and asked.parameters != JSON_NULL:  # almost all have the default
        found = replace(found, schema=_read_schema(bytes(asked.parameters)))
    return _without_credentials(found) if may_hide(body.decode("utf-8", "replace")) else found


def _without_credentials(approval: Approval) -> Approval:
    """Return an approval with the credentials in its words and arguments masked. A pattern with one is not offered."""
    words = {"why": hide(approval.why), "because": hide(approval.because), "question": hide(approval.question)}
    approval = replace(approval, choices=approval.choices and tuple(hide(approval.choices)), **words)
    given = approval.arguments
    if not isinstance(given, dict):
        return replace(approval, arguments=hide(given))
    names = tuple(name for name, value in given.items() if hides(value))
    options = tuple(each for each in approval.options if not hides(each.pattern))
    offered = tuple(each for each in approval.allowances if not hides(each.pattern))
    shown = {"arguments": hide(given), "masked": names, "options": options, "allowances": offered}
    return replace(approval, **shown) if names else approval


@lru_cache(256)
def _read_schema(schema: bytes) -> dict[str, Any] | None:
    """Decode a schema; the calls of one tool have the same one. Approvals are frozen, and share it."""
    found = _read_json(schema)
    return found if isinstance(found, dict) else None


def as_shown(
    asked: Approval, shown: tuple[str, ...], reminder: bytes | None, entry_at: Callable[[int], bytes]
) -> Approval:
    """Add the channels that show it, its votes, its evidence, and the last reminder, whose body may be without its
    shared prefix. `shown`: names of cards, votes and evidence. `entry_at`: returns the entry at a position."""
    named = read_names(shown)
    found = replace(asked, shown=named.channels, votes=named.votes)
    if named.evidence:
        found = replace(found, evidence=tuple(_evidence(entry_at(position)) for position in named.evidence))
    if reminder is None:
        return found
    if (said := _read(_read_reminder, reminder)) is None:
        return found
    last = said.at if said.by is None else said.reminded_at
    found = replace(found, reminded_at=last, escalated_to=said.escalated_to, step=said.step, told_in=said.told_in)
    return replace(found, acknowledged=said.acknowledged, snoozed=said.snoozed)


def _evidence(body: bytes) -> Evidence:
    said = _read(_read_evidence, body)
    if said is None:
        return Evidence(digest=UNREADABLE, taken_at=_NEVER, failure=UNREADABLE)
    text, failure = hide(said.text), hide(said.failure)
    return Evidence(digest=said.digest, taken_at=said.at, kind=said.kind, text=text, failure=failure)


def as_ended(asked: Approval, status: str, end: bytes) -> Approval:
    """Add the event that ended an approval: a decision, a withdrawal, or the call's own end."""
    event = _read(e.decode_event, end)
    found: Approval = replace(asked, status=status)
    if event is None:
        return replace(found, reason=UNREADABLE)
    said = PENDING.apply(event)
    if others := getattr(event, "votes", ()):
        found = replace(found, with_votes_of=others)
    found = replace(found, reason=hide(said.reason), decided_at=event.at, decision=said.decision, by=said.by)
    found = replace(found, channel=getattr(event, "channel", None))
    if said.answer is not None:
        return replace(found, answer=hide(_read_json(said.answer)))
    if said.decision is not None:
        if said.edited is not None and found.kind == "call":
            given = mask_arguments(_read_json(said.edited), found.secret)
            arguments = hide(given)
            is_edited = (
                bool(found.secret or found.masked) or arguments is not given or arguments != found.arguments
            )  # masks hide whether values differ
            defaults = unchanged(found.defaults, found.arguments, arguments)
            found = replace(found, arguments=arguments, edited=is_edited, defaults=defaults)
        made = said.ended
        scope = None if said.decision == "deny" and made.scope == "once" else made.scope
        found = replace(found, scope=scope, pattern=hide(made.pattern), rule=made.rule, through=made.through)
        if made.rules or made.uses or made.until:
            found = replace(found, rules=made.rules, uses=made.uses, until=made.until)
    return found


def _outcome(end: e.RunFinished | e.ImportStarted | None) -> Outcome[Any]:
    if end is None:
        return Outcome(kind="abandoned", cause="its outcome cannot be read: a newer program wrote it, or it is damaged")
    if isinstance(end, e.ImportStarted):
        return Outcome(kind="succeeded", cause=end.cause)
    return Outcome(
        kind=end.kind,
        cause=end.cause,
        partial=_read_json(end.partial),
        said=end.said,
        value=_read_json(end.value),
    )


def _read(decode: Callable[[bytes], T], body: bytes) -> T | None:
    try:
        return decode(body)
    except (*_UNDECODABLE, StoreUnreadable):
        return None
