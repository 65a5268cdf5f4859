"""Values of parameters that a tool declares secret: the journal and the effect have them, all readers see a mask.

Rules
- The event with the arguments names those that are secret, so that a later reader without the tool can mask them.
  Everything that leaves through a Supervisor (approvals, journals, transcripts) is masked.
- The whole value is masked, whatever its structure. Arguments that are not an object are masked whole. A value that is
  not set (null) is shown: it is not a secret.
- Where edited arguments contain the mask, they keep the original value.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.rows import JournalEntry

MASK: Final = "[secret]"
"""Replaces a secret value wherever people and programs look; approvers type it to leave the value unchanged."""


def mask(arguments: Any, secret: Collection[str]) -> Any:
    """Return arguments, as JSON values, with their secrets masked."""
    if not secret:
        return arguments
    if not isinstance(arguments, Mapping):
        return MASK
    return {name: MASK if name in secret and value is not None else value for name, value in arguments.items()}


def unmask(arguments: Mapping[str, Any], original: Raw, secret: Collection[str]) -> dict[str, Any]:
    """Return edited arguments with the original values where the approver left the mask."""
    kept = msgspec.json.decode(original) if secret else {}
    return {name: kept.get(name) if name in secret and value == MASK else value for name, value in arguments.items()}


def masked(event: e.AnyEvent) -> e.AnyEvent:
    """Return an event with its secrets masked."""
    match event:
        case e.ToolCallRequested(secret=(_, *_)):
            return replace(event, arguments=_mask_json(event.arguments, event.secret))
        case e.ApprovalDecided(secret=(_, *_)) if event.edited is not None:
            return replace(event, arguments=_mask_json(event.arguments, event.secret))
        case _:
            return event


def shown(rows: Iterable[JournalEntry]) -> list[JournalEntry]:
    """Return journal entries with their secrets masked."""
    return [
        row if (event := masked(row.event)) is row.event else JournalEntry(row.position, row.session, event)
        for row in rows
    ]


def _mask_json(arguments: Raw, secret: Collection[str]) -> Raw:
    return Raw(msgspec.json.encode(mask(msgspec.json.decode(arguments), secret)))
