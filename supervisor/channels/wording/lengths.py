"""Cuts texts to length: chat platforms limit the length of a message and refuse longer ones.

Rules
- Lengths are in UTF-16 code units. No platform counts more units for a text, so a text that fits here fits everywhere.
- A cut text says how much is missing. Ids are never cut: the caller leaves room for them.
- A text that a person decides upon keeps both ends: the effect of a command may stand at its end.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from supervisor.core.approvals.drawing import isolated
from supervisor.core.approvals.facts import Fact

_ROOM_FOR_REMARK: Final = 40
_LABEL: Final = 60
_AROUND: Final = 12  # the most that a surface puts around a fact
_LEAST: Final = 100  # a shorter piece of a fact is of no use
_ROOM_FOR_ID: Final = 64  # fixed, so that the cut does not depend on the length of a time


class DrawnFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact as a surface writes it. `unseen`: the number of characters that are missing from label and text."""

    fact: Fact
    label: str
    text: str
    unseen: int = 0

    @property
    def is_whole(self) -> bool:
        return not self.unseen

    @property
    def is_kept(self) -> bool:
        """Whether it is never cut: ids and times of ours, which are short."""
        return self.fact.is_id or (self.fact.kind == "ours" and self.fact.instant is not None)


def length(text: str) -> int:
    """Return the length of a text in UTF-16 code units."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2


def fit(text: str, limit: int, *, remark: bool = True) -> str:
    """Return the text, or as much of its beginning as fits, with a remark that says how much is missing.

    `remark=False`: with an ellipsis only, for labels. `limit` is in UTF-16 code units.
    """
    if length(text) <= limit:
        return text
    if not remark or limit <= 2 * _ROOM_FOR_REMARK:
        return beginning_of_text(text, limit - 1) + "…"
    kept = beginning_of_text(text, limit - _ROOM_FOR_REMARK)
    return f"{kept}\n… {len(text) - len(kept)} more characters not shown"


def _ends(text: str, limit: int) -> tuple[str, int]:
    """Return the text, or as much of its beginning and end as fits, with a remark that says how much is missing, and
    the number of characters that are missing."""
    if length(text) <= limit:
        return text, 0
    if limit <= 3 * _ROOM_FOR_REMARK:
        head = beginning_of_text(text, (limit - 1) * 2 // 3)
        tail = beginning_of_text(text[::-1], limit - 1 - length(head))[::-1]
        return f"{head}…{tail}", len(text) - len(head) - len(tail)
    room = limit - 2 * _ROOM_FOR_REMARK
    head = beginning_of_text(text, room * 2 // 3)
    tail = beginning_of_text(text[::-1], room - length(head))[::-1]
    missing = len(text) - len(head) - len(tail)
    return f"{head}\n… {missing} more characters not shown; it ends with …\n{tail}", missing


def fit_facts(drawn: Sequence[DrawnFact], room: int) -> tuple[tuple[DrawnFact, ...], int]:
    """Return as much of a card's facts as fits into `room`, and the number of characters of the request that are
    missing. What is missing from lines that a decision does not need is not counted; the lines say it.

    The first facts get most of the room, but not all of it: a long command leaves room for the folder and the
    requester. Ids are always shown whole. Labels and texts from right to left are isolated, once they are cut: an
    argument of a foreign tool may have any name.
    """
    sizes = [0 if each.is_kept else min(_LEAST, _size(each)) for each in drawn]
    room -= sum(max(_ROOM_FOR_ID, _size(each)) for each in drawn if each.is_kept)
    later = sum(sizes)
    shown: list[DrawnFact] = []
    missing = 0
    for each, least in zip(drawn, sizes, strict=True):
        if each.is_kept:
            shown.append(each)
            continue
        later -= least
        if room < least:
            missing += max(1, len(each.text)) if each.fact.is_needed else 0
            continue
        mine = max(_LEAST, room - min(later, room // 2))
        kept = fit(each.label, _LABEL, remark=False)
        label = isolated(kept)
        text, unseen = _isolated_ends(each.text, mine - _AROUND - length(label))
        unseen += kept != each.label
        missing += unseen if each.fact.is_needed else 0
        shown.append(short := replace(each, label=label, text=text, unseen=unseen))
        room -= _size(short)
    return tuple(shown), missing


def _isolated_ends(text: str, limit: int) -> tuple[str, int]:
    """Return what `_ends` does, with text from right to left isolated, which takes room too."""
    kept, _ = _ends(text, limit)
    kept, missing = _ends(text, limit - max(0, length(isolated(kept)) - max(limit, length(kept))))
    return isolated(kept), missing


def _size(each: DrawnFact) -> int:
    return length(each.label) + length(each.text) + _AROUND


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


def beginning_of_text(text: str, room: int) -> str:
    """Return as much of a text's beginning as has at most `room` UTF-16 units."""
    kept = text[:room]
    while length(kept) > room:
        kept = kept[: len(kept) - max(1, (length(kept) - room) // 2)]
    return kept
