"""An approval as a row on a page: what runs, where, who asks, since when; and its name for screen readers.

Rules
- A row is cut, and each cut is marked. What is left out is the middle: what differs often stands at the end.
- Only the ends of a long value are drawn, since a page has many rows.
- Two approvals that run different things have different names. Where a name is cut, the id tells them apart.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec
from msgspec.structs import replace

from supervisor.channels.wording.cards import all_facts, decided, headline, path_text
from supervisor.core.approvals.facts import WANTS, Fact, instant_text
from supervisor.core.text.visible import json_text, visible
from supervisor.core.values import Approval

MOST_CHARACTERS_OF_A_ROW: Final = 100
_MOST_OF_A_NAME: Final = 400
_MOST_OF_A_VALUE: Final = 120
_CUT: Final = "…"

_TONES: Final[dict[str, Literal["pending", "approved", "denied", "gone"]]] = {
    "pending": "pending",
    "approved": "approved",
    "answered": "approved",
    "denied": "denied",
}


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One approval in a few words. What is cut ends in an ellipsis; the card has it whole. `tone` is its class in the
    style sheet."""

    id: str
    root: str
    what: str
    is_code: bool
    """Whether `what` is a call rather than the words of a question."""
    path: str
    asks: str
    where: str
    requester: str
    created_at: datetime
    expires_at: datetime | None
    tone: Literal["pending", "approved", "denied", "gone"]
    ending: str
    others: tuple[str, ...]
    """What people did with it: who is on it, who wants to hear of it later, and who has voted."""
    name: str
    """Its name for screen readers: what, where, for whom and in which session."""


def row_of(approval: Approval, now: datetime) -> Row:
    """Return an approval in a few words. Of a long value only its ends are drawn: a page has many rows."""
    short = replace(approval, arguments=_shortened(approval.arguments), question=_cut_text(approval.question or ""))
    found = all_facts(short, approval.created_at)
    wanted = ("question",) if approval.kind == "question" else ("command", "argument", "claim")
    said = [each for each in found if each.kind in wanted and not (each.is_unset or each.is_default or _is_form(each))]
    where = next((each.text for each in found if each.kind == "place"), "")
    path, is_pending = path_text(approval.path), approval.status == "pending"
    asks = headline(approval).removeprefix(path).strip()
    name = f"{path} {asks}: {', '.join(_said(each, _MOST_OF_A_VALUE) for each in said)}"
    in_sight = said[:1] if approval.kind == "question" else said  # its choices are on its card
    what = ", ".join(_in_sight(in_sight)) or visible(approval.tool)
    is_cut = _CUT in name or len(name) > _MOST_OF_A_NAME
    places = [f"in {where}"] * bool(where) + [f"for {visible(approval.requester)}", f"session {approval.root_session}"]
    return Row(
        id=approval.id,
        root=approval.root_session,
        what=_cut_text(what, 2 * MOST_CHARACTERS_OF_A_ROW),
        is_code=approval.kind != "question",
        path=path,
        asks=asks,
        where=where,
        requester=approval.requester,
        created_at=approval.created_at,
        expires_at=approval.expires_at if is_pending else None,
        tone=_TONES.get(approval.status, "gone"),
        ending="" if is_pending else decided(replace(approval, decided_at=None), now),
        others=tuple(_others(approval, found, now)) if is_pending else (),
        name=", ".join([_cut_text(name, _MOST_OF_A_NAME), *places, *([f"approval {approval.id[-6:]}"] * is_cut)]),
    )


def _others(approval: Approval, found: Sequence[Fact], now: datetime) -> Iterator[str]:
    """Yield who is on it now, who wants to hear of it later, and who has voted."""
    if (on_it := approval.acknowledged) is not None and on_it.until > now:
        yield f"{visible(on_it.by)} is on it"
    for each in approval.snoozed:
        if each.until > now:
            yield f"{visible(each.by)} hears of it after {instant_text(each.until, now)}"
    yield from (each.text for each in found if each.kind == "ours" and each.name == "votes")


def _is_form(fact: Fact) -> bool:
    """Whether a fact tells the fields of an answer rather than what is asked."""
    return fact.kind == "question" and fact.name == WANTS


def _in_sight(said: Sequence[Fact]) -> list[str]:
    """Return what fits into the few lines of a row on a phone: of short values all, so that `production` is not what is
    left out, and of long ones what room there is."""
    room, most = MOST_CHARACTERS_OF_A_ROW, dict[int, int]()
    lengths = sorted((len(_said(each, _MOST_OF_A_VALUE)), place) for place, each in enumerate(said))
    for left, (length, place) in zip(range(len(lengths), 0, -1), lengths, strict=True):
        most[place] = min(length, room // left)
        room = max(0, room - most[place])
    return [_said(each, max(16, most[place] - len(_said(each, 0)))) for place, each in enumerate(said)]


def _said(fact: Fact, most: int) -> str:
    text = _cut_text(_in_line(fact.text), most) if most else ""
    return text if fact.kind in ("command", "question") else f"{fact.label} {text}"


def _shortened(arguments: Any) -> Any:
    if not isinstance(arguments, dict):
        return arguments
    return {_cut_text(name): _short_value(value) for name, value in arguments.items()}


def _short_value(value: Any) -> Any:
    if isinstance(value, str):
        return _cut_text(value)
    if value is None or isinstance(value, int | float):
        return value
    text = json_text(value)
    return value if len(text) <= _MOST_OF_A_VALUE else _cut_text(text)


def _cut_text(text: str, most: int = _MOST_OF_A_VALUE) -> str:
    """Return a text with its middle left out if it is long: what changes often stands at the end."""
    return text if len(text) <= most else f"{text[: most * 2 // 3]}{_CUT}{text[-(most // 3) + 1 :]}"


def _in_line(text: str) -> str:
    """Return a text in one line. Our ellipsis is drawn as one, and so is one of the text: a row is no proof."""
    return " ".join(text.split()).replace("⟨U+2026⟩", _CUT)
