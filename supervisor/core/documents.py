"""The package's values as JSON: one contract for the command line's `--json`, HTTP and pages.

Rules
- Times are RFC 3339 in UTC, kinds are plain strings, `decision` is null or a word.
- Fields may be added to a document; no field is removed.
"""

from typing import Any

import msgspec

from supervisor.core.approvals.chat_words import ChatResult
from supervisor.core.calls.rules import Rule
from supervisor.core.events import UnknownEvent, encode_event
from supervisor.core.rows import JournalEntry, TreeView
from supervisor.core.schedules import ScheduleView
from supervisor.core.sessions.activity import Activity
from supervisor.core.values import Approval, DecisionResult, SendResult, SessionView


def approval_document(approval: Approval) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(approval)
    del document["position"]
    return document


def session_document(view: SessionView) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(view)
    del document["position"]
    document["outcome"] = outcome_document(view)
    document["pending_approvals"] = [approval_document(approval) for approval in view.pending_approvals]
    return document


def outcome_document(view: SessionView) -> dict[str, Any] | None:
    if view.outcome is None:
        return None
    return {key: view.outcome.get(key) for key in ("kind", "value", "cause")}


def decision_document(result: DecisionResult) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(result)
    return document


def rule_document(rule: Rule) -> dict[str, Any]:
    """Return a rule with all of its fields, including those that have their defaults."""
    document: dict[str, Any] = msgspec.to_builtins({name: getattr(rule, name) for name in rule.__struct_fields__})
    return document


def schedule_document(view: ScheduleView) -> dict[str, Any]:
    """Return a schedule with all of its fields, including those that have their defaults. An input that was left out
    stays out."""
    document: dict[str, Any] = msgspec.to_builtins({name: getattr(view, name) for name in view.__struct_fields__})
    schedule = view.schedule
    fields = {name: getattr(schedule, name) for name in schedule.__struct_fields__}
    document["schedule"] = msgspec.to_builtins({k: v for k, v in fields.items() if v is not msgspec.UNSET})
    return document


def send_document(receipt: SendResult) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(receipt)
    document["waiting_for"] = [approval_document(approval) for approval in receipt.waiting_for]
    return document


def chat_document(heard: ChatResult) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(heard)
    document["sent"] = None if heard.sent is None else send_document(heard.sent)
    document["approvals"] = [approval_document(approval) for approval in heard.approvals]
    document["not_shown"] = [approval_document(approval) for approval in heard.not_shown]
    document["rules"] = [rule_document(rule) for rule in heard.rules]
    return document


def activity_document(activity: Activity) -> dict[str, Any]:
    document: dict[str, Any] = msgspec.to_builtins(activity)
    for built, doing in zip(document["doing"], activity.doing, strict=True):
        built["approval"] = None if doing.approval is None else approval_document(doing.approval)
    return document


def event_document(row: JournalEntry) -> dict[str, Any]:
    """Return a journal entry as a Supervisor gives it: secrets in it are already masked. An event that is not
    known here looks as a newer program wrote it."""
    event: dict[str, Any] = msgspec.json.decode(encode_event(row.event))
    if isinstance(row.event, UnknownEvent):
        event |= event.pop("fields")
    return {"position": row.position, "session": row.session, **event}


def tree_document(tree: TreeView) -> dict[str, Any]:
    return {
        "sessions": [session_document(view) for view in tree.sessions],
        "entries": [event_document(row) for row in tree.entries],
        "cursor": tree.cursor,
        "left_out": tree.left_out,
    }
