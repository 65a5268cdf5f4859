"""Texts that must fit: other people's platforms bound what a message may hold, and refuse what is longer.

Rules
- Lengths are UTF-16 code units, the largest of the ways in which platforms count, so that what fits here fits there.
- What is cut says so, and how much is missing. Ids are never cut: whoever places one leaves room for it.
- Of what somebody decides upon, both ends are kept: what a command does may stand at its end.
"""

from collections.abc import Iterable
from typing import Final

Facts = tuple[tuple[str, str], ...]

_ROOM_FOR_REMARK: Final = 40
_LABEL: Final = 60
_AROUND: Final = 12  # what a surface puts around a fact, at most
_LEAST: Final = 100  # of a fact less than this says nothing any more
_NEVER_CUT: Final = ("approval", "session", "since", "expires")
_ID: Final = 100  # an argument may have the same name, and be longer
_ROOM_FOR_ID: Final = 64  # whatever the time is, it takes the same: what is cut does not depend on the clock


def length(text: str) -> int:
    """Return how long a text is for a platform, in UTF-16 code units."""
    return len(text) + sum(char > "\uffff" for char in text)


def fit(text: str, limit: int, *, remark: bool = True) -> str:
    """Return the text, or as much of its beginning as fits with a remark on how much is missing.

    `remark=False`: with an ellipsis alone, for labels. `limit` is in UTF-16 code units.
    """
    if length(text) <= limit:
        return text
    if not remark or limit <= 2 * _ROOM_FOR_REMARK:
        return _beginning(text, limit - 1) + "…"
    kept = _beginning(text, limit - _ROOM_FOR_REMARK)
    return f"{kept}\n… {len(text) - len(kept)} more characters not shown"


def fit_ends(text: str, limit: int) -> str:
    """Return the text, or as much of its beginning and its end as fits, with how much is missing in between."""
    return _ends(text, limit)[0]


def _ends(text: str, limit: int) -> tuple[str, int]:
    """Return what `fit_ends` does, and how many characters are missing from it."""
    if length(text) <= limit:
        return text, 0
    if limit <= 3 * _ROOM_FOR_REMARK:
        head = _beginning(text, (limit - 1) * 2 // 3)
        tail = _beginning(text[::-1], limit - 1 - length(head))[::-1]
        return f"{head}…{tail}", len(text) - len(head) - len(tail)
    room = limit - 2 * _ROOM_FOR_REMARK
    head = _beginning(text, room * 2 // 3)
    tail = _beginning(text[::-1], room - length(head))[::-1]
    missing = len(text) - len(head) - len(tail)
    return f"{head}\n… {missing} more characters not shown; it ends with …\n{tail}", missing


def fit_facts(facts: Facts, room: int) -> tuple[Facts, int]:
    """Return as much of a card's facts as fits into `room`, and how many of their characters are missing.

    What comes first has most of the room, but never all of it: a long command leaves some for where and for whom it
    runs. Ids are always there, whole.
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
        text, unseen = _ends(fact[1], mine - _AROUND - length(label))
        missing += unseen + (label != fact[0])
        short = label, text
        room -= _size(short)
        shown.append(short)
    return tuple(shown), missing


def _is_id(fact: tuple[str, str]) -> bool:
    return fact[0] in _NEVER_CUT and length(fact[1]) <= _ID


def _size(fact: tuple[str, str]) -> int:
    return length(fact[0]) + length(fact[1]) + _AROUND


def fit_lines(lines: Iterable[str], count: int, room: int) -> str:
    """Return as many of `count` lines as fit, each whole, and how many do not: a list is cut between two ids, never
    within one. No more lines are made than that."""
    shown: list[str] = []
    room -= _ROOM_FOR_REMARK
    for line in lines:
        room -= length(line) + 1
        if room < 0:
            break
        shown.append(line)
    rest = [f"… {count - len(shown)} more not shown"] if len(shown) < count else []
    return "\n".join(shown + rest)


def _beginning(text: str, room: int) -> str:
    kept = text[:room]
    while length(kept) > room:
        kept = kept[: len(kept) - max(1, (length(kept) - room) // 2)]
    return kept
