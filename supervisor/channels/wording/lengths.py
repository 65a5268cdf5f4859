"""Cuts texts to length: chat platforms limit the length of a message and refuse longer ones.

Rules
- Lengths are in UTF-16 code units. No platform counts more units for a text, so a text that fits here fits everywhere.
- A cut text says how much is missing. Ids are never cut: the caller leaves room for them.
- A text that a person decides upon keeps both ends: the effect of a command may stand at its end.
"""

from collections.abc import Iterable
from typing import Final

from supervisor.channels.wording.drawing import isolated

Facts = tuple[tuple[str, str], ...]

_ROOM_FOR_REMARK: Final = 40
_LABEL: Final = 60
_AROUND: Final = 12  # the most that a surface puts around a fact
_LEAST: Final = 100  # a shorter piece of a fact is of no use
_NEVER_CUT: Final = ("approval", "session", "since", "expires")
_ID: Final = 100  # an argument may have the same name, and be longer
_ROOM_FOR_ID: Final = 64  # fixed, so that the cut does not depend on the length of a time


def length(text: str) -> int:
    """Return the length of a text in UTF-16 code units."""
    return len(text) + sum(char > "\uffff" for char in text)


def fit(text: str, limit: int, *, remark: bool = True) -> str:
    """Return the text, or as much of its beginning as fits, with a remark that says how much is missing.

    `remark=False`: with an ellipsis only, for labels. `limit` is in UTF-16 code units.
    """
    if length(text) <= limit:
        return text
    if not remark or limit <= 2 * _ROOM_FOR_REMARK:
        return beginning(text, limit - 1) + "…"
    kept = beginning(text, limit - _ROOM_FOR_REMARK)
    return f"{kept}\n… {len(text) - len(kept)} more characters not shown"


def fit_ends(text: str, limit: int) -> str:
    """Return the text, or as much of its beginning and end as fits, with a remark that says how much is missing."""
    return _ends(text, limit)[0]


def _ends(text: str, limit: int) -> tuple[str, int]:
    """Return the text as `fit_ends` does, and the number of characters that are missing from it."""
    if length(text) <= limit:
        return text, 0
    if limit <= 3 * _ROOM_FOR_REMARK:
        head = beginning(text, (limit - 1) * 2 // 3)
        tail = beginning(text[::-1], limit - 1 - length(head))[::-1]
        return f"{head}…{tail}", len(text) - len(head) - len(tail)
    room = limit - 2 * _ROOM_FOR_REMARK
    head = beginning(text, room * 2 // 3)
    tail = beginning(text[::-1], room - length(head))[::-1]
    missing = len(text) - len(head) - len(tail)
    return f"{head}\n… {missing} more characters not shown; it ends with …\n{tail}", missing


def fit_facts(facts: Facts, room: int) -> tuple[Facts, int]:
    """Return as much of a card's facts as fits into `room`, and the number of characters that are missing.

    The first facts get most of the room, but not all of it: a long command leaves room for the folder and the
    requester. Ids are always shown whole. Text from right to left is isolated, once it is cut.
    """
    sizes = [0 if _is_id(fact) else min(_LEAST, _size(fact)) for fact in facts]
    room -= sum(max(_ROOM_FOR_ID, _size(fact)) for fact in facts if _is_id(fact))
    later = sum(sizes)
    shown: list[tuple[str, str]] = []
    missing = 0
    for fact, least in zip(facts, sizes, strict=True):
        if _is_id(fact):
            shown.append(fact)
            continue
        later -= least
        if room < least:
            missing += max(1, len(fact[1]))
            continue
        mine = max(_LEAST, room - min(later, room // 2))
        label = fit(fact[0], _LABEL, remark=False)
        text, unseen = _isolated_ends(fact[1], mine - _AROUND - length(label))
        missing += unseen + (label != fact[0])
        short = label, text
        room -= _size(short)
        shown.append(short)
    return tuple(shown), missing


def _isolated_ends(text: str, limit: int) -> tuple[str, int]:
    """Return what `_ends` does, with text from right to left isolated, which takes room too."""
    kept, _ = _ends(text, limit)
    kept, missing = _ends(text, limit - max(0, length(isolated(kept)) - max(limit, length(kept))))
    return isolated(kept), missing


def _is_id(fact: tuple[str, str]) -> bool:
    return fact[0] in _NEVER_CUT and length(fact[1]) <= _ID


def _size(fact: tuple[str, str]) -> int:
    return length(fact[0]) + length(fact[1]) + _AROUND


def fit_lines(lines: Iterable[str], count: int, room: int) -> str:
    """Return as many of `count` lines as fit, each whole, and a last line with the number of the others. `lines` is
    read only as far as lines fit."""
    shown: list[str] = []
    room -= _ROOM_FOR_REMARK
    for line in lines:
        room -= length(line) + 1
        if room < 0:
            break
        shown.append(line)
    rest = [f"… {count - len(shown)} more not shown"] if len(shown) < count else []
    return "\n".join(shown + rest)


def beginning(text: str, room: int) -> str:
    """Return as much of a text's beginning as has at most `room` UTF-16 units."""
    kept = text[:room]
    while length(kept) > room:
        kept = kept[: len(kept) - max(1, (length(kept) - room) // 2)]
    return kept
