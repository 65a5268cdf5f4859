"""Texts that must fit: other people's platforms bound what a message may hold, and refuse what is longer.

Rules
- Lengths are UTF-16 code units, the largest of the ways in which platforms count, so that what fits here fits there.
- What is cut says so, and how much is missing. Ids are never cut: whoever places one leaves room for it.
"""

from collections.abc import Iterable
from typing import Final

Facts = tuple[tuple[str, str], ...]

_ROOM_FOR_REMARK: Final = 40
_LABEL: Final = 60
_AROUND: Final = 12  # what a surface puts around a fact, at most
_LEAST: Final = 100  # of a fact less than this says nothing any more
_NEVER_CUT: Final = ("approval", "session")
_ID: Final = 100  # an argument may have the same name, and be longer


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


def fit_facts(facts: Facts, room: int) -> tuple[Facts, bool]:
    """Return as much of a card's facts as fits into `room`, and whether anything of them is missing.

    What comes first has most of the room, but never all of it: a long command leaves some for where and for whom it
    runs. Ids are always there, whole.
    """
    sizes = [0 if _is_id(fact) else min(_LEAST, _size(fact)) for fact in facts]
    room -= sum(_size(fact) for fact in facts if _is_id(fact))
    later = sum(sizes)
    shown: list[tuple[str, str]] = []
    is_cut = False
    for fact, least in zip(facts, sizes, strict=True):
        if _is_id(fact):
            shown.append(fact)
            continue
        later -= least
        if room < least:
            is_cut = True
            continue
        mine = max(_LEAST, room - min(later, room // 2))
        label = fit(fact[0], _LABEL, remark=False)
        short = label, fit(fact[1], mine - _AROUND - length(label))
        is_cut = is_cut or short != fact
        room -= _size(short)
        shown.append(short)
    return tuple(shown), is_cut


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
