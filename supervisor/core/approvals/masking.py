"""Journal entries with their secrets and credentials masked (core/text/masks.py): the store has them, no reader gets
them.

Rules
- The event with the arguments names those that are secret, so that a later reader without the tool can mask them.
  Everything that leaves through a Supervisor (approvals, journals, transcripts) is masked.
- Events with credentials in a question, or in the caller's words, are masked, too.
"""

from collections.abc import Collection, Iterable

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.rows import JournalEntry
from supervisor.core.text.masks import hide, mask_arguments, may_hide


def masked_event(event: e.AnyEvent, *, credentials: bool = True) -> e.AnyEvent:
    """Return an event with its secrets masked, and its `credentials`; the event itself if it has none."""
    match event:
        case e.ToolCallRequested(secret=secret) if secret or credentials:
            arguments = _mask_json(event.arguments, secret, credentials=credentials)
            if arguments is event.arguments and not (credentials and may_hide(event.because)):
                return event
            words = {"because": hide(event.because), "patterns": _mask_patterns(event.patterns)} if credentials else {}
            return replace(event, arguments=arguments, **words)
        case e.ApprovalDecided(secret=secret) if event.edited is not None and (secret or credentials):
            arguments = _mask_json(event.arguments, secret, credentials=credentials)
            return event if arguments is event.arguments else replace(event, arguments=arguments)
        case e.ApprovalDecided(pattern=str(pattern)) if credentials and may_hide(pattern):
            return replace(event, pattern=hide(pattern))
        case e.RuleAdded(rule=rule) if credentials and rule.pattern is not None and may_hide(rule.pattern):
            return replace(event, rule=replace(rule, pattern=hide(rule.pattern)))
        case e.QuestionAsked(question=question) if credentials and may_hide(question):
            return replace(event, question=hide(question))
        case _:
            return event


def shown_entries(rows: Iterable[JournalEntry], *, credentials: bool = True) -> list[JournalEntry]:
    """Return journal entries with their secrets masked, and their `credentials`: an agent has its own words back."""
    return [
        row
        if (event := masked_event(row.event, credentials=credentials)) is row.event
        else JournalEntry(row.position, row.session, event)
        for row in rows
    ]


def _mask_patterns(patterns: Iterable[str | None]) -> tuple[str | None, ...]:
    return tuple(hide(pattern) for pattern in patterns)


def _mask_json(arguments: Raw, secret: Collection[str], *, credentials: bool) -> Raw:
    """Return arguments with what is masked; the same object if nothing is."""
    hides = credentials and may_hide(bytes(arguments).decode("utf-8", "replace"))
    if not secret and not hides:
        return arguments
    given = msgspec.json.decode(arguments)
    found = mask_arguments(given, secret)
    found = hide(found) if hides else found
    return arguments if found is given else Raw(msgspec.json.encode(found))
