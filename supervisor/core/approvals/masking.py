"""Journal entries with their secrets and credentials masked (core/text/masks.py): the store has them, no reader gets them.

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
from supervisor.core.text.masks import hide, mask, may_hide


def masked(event: e.AnyEvent, *, credentials: bool = True) -> e.AnyEvent:
    """Return an event with its secrets masked, and its `credentials`; the event itself if it has none."""
    match event:
        case e.ToolCallRequested(secret=secret) if secret or credentials:
            arguments = _mask_json(event.arguments, secret, credentials=credentials)
            because = hide(event.because) if credentials else event.because
            is_same = arguments is event.arguments and because == event.because
            return event if is_same else replace(event, arguments=arguments, because=because)
        case e.ApprovalDecided(secret=secret) if event.edited is not None and (secret or credentials):
            arguments = _mask_json(event.arguments, secret, credentials=credentials)
            return event if arguments is event.arguments else replace(event, arguments=arguments)
        case e.QuestionAsked(question=question) if credentials and may_hide(question):
            return replace(event, question=hide(question))
        case _:
            return event


def shown(rows: Iterable[JournalEntry], *, credentials: bool = True) -> list[JournalEntry]:
    """Return journal entries with their secrets masked, and their `credentials`: an agent has its own words back."""
    return [
        row
        if (event := masked(row.event, credentials=credentials)) is row.event
        else JournalEntry(row.position, row.session, event)
        for row in rows
    ]


def _mask_json(arguments: Raw, secret: Collection[str], *, credentials: bool) -> Raw:
    """Return arguments with what is masked; the same object if nothing is."""
    hides = credentials and may_hide(bytes(arguments).decode("utf-8", "replace"))
    if not secret and not hides:
        return arguments
    given = msgspec.json.decode(arguments)
    found = mask(given, secret)
    found = hide(found) if hides else found
    return arguments if found is given else Raw(msgspec.json.encode(found))
