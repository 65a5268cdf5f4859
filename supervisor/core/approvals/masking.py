"""Journal entries with their secrets and credentials masked (core/text/masks.py): the store has them, no reader gets
them.

Rules
- The event with the arguments names those that are secret, so that a later reader without the tool can mask them.
  Everything that leaves through a Supervisor (approvals, journals, transcripts) is masked.
- So are the credentials in all else that cards and lists show: a question with its choices and its answer, the words of
  callers and of persons who decide, patterns of rules, commands of jobs. Messages, reports and results, which may be
  long, are shown as they are.
"""

from collections.abc import Collection, Iterable
from typing import Any

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.calls.rules import Rule
from supervisor.core.rows import JournalEntry
from supervisor.core.text.masks import hide, mask_arguments, may_hide


def masked_event(event: e.AnyEvent, *, credentials: bool = True) -> e.AnyEvent:
    """Return an event with its secrets masked, and its `credentials`; the event itself if it has none."""
    match event:
        case e.ToolCallRequested(secret=secret) if secret or credentials:
            arguments = _mask_json(event.arguments, secret, credentials=credentials)
            words = _hidden(event, "because", "why", "patterns") if credentials else {}
            return event if arguments is event.arguments and not words else replace(event, arguments=arguments, **words)
        case e.ApprovalDecided(secret=secret) if secret or credentials:
            arguments = event.arguments
            if event.edited is not None:
                arguments = _mask_json(event.arguments, secret, credentials=credentials)
            words = _hidden(event, "reason", "pattern") if credentials else {}
            return event if arguments is event.arguments and not words else replace(event, arguments=arguments, **words)
        case e.ApprovalVoted(value=value, secret=secret) | e.EvidenceWanted(value=value, secret=secret) if (
            secret or credentials
        ):
            said = _mask_json(value, secret, credentials=credentials)
            return event if said is value else replace(event, value=said)
        case e.EvidenceTaken() if credentials and (words := _hidden(event, "text", "failure")):
            return replace(event, **words)
        case e.RuleAdded(rule=rule) if credentials and (hidden := masked_rule(rule)) is not rule:
            return replace(event, rule=hidden)
        case e.QuestionAsked() if credentials and (words := _hidden(event, "question", "choices")):
            return replace(event, **words)
        case e.QuestionAnswered(value=value) if credentials:
            answer = _mask_json(value, (), credentials=True)
            return event if answer is value else replace(event, value=answer)
        case e.JobStarted(command=command) if credentials and may_hide(command):
            return replace(event, command=hide(command))
        case _:
            return event


def masked_rule(rule: Rule) -> Rule:
    """Return a rule with the credentials in its pattern and its reason masked; itself if there are none."""
    words = _hidden(rule, "pattern", "reason")
    return replace(rule, **words) if words else rule


def _hidden(of: Any, *names: str) -> dict[str, Any]:
    """Return those fields of these names that have credentials in them, masked."""
    found = {name: getattr(of, name) for name in names}
    return {
        name: tuple(shown) if isinstance(shown, list) else shown
        for name, value in found.items()
        if (shown := hide(value)) is not value
    }


def shown_entries(rows: Iterable[JournalEntry], *, credentials: bool = True) -> list[JournalEntry]:
    """Return journal entries with their secrets masked, and their `credentials`: an agent has its own words back."""
    return [
        row
        if (event := masked_event(row.event, credentials=credentials)) is row.event
        else JournalEntry(row.position, row.session, event)
        for row in rows
    ]


def _mask_json(arguments: Raw, secret: Collection[str], *, credentials: bool) -> Raw:
    """Return arguments with what is masked; the same object if nothing is."""
    hides = credentials and may_hide(bytes(arguments).decode("utf-8", "replace"))
    if not secret and not hides:
        return arguments
    given = msgspec.json.decode(arguments)
    found = mask_arguments(given, secret)
    found = hide(found) if hides else found
    return arguments if found is given else Raw(msgspec.json.encode(found))
