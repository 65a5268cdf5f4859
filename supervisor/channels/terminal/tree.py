"""Draws the tree of runs as lines: the activity of each session, its age, and the rest of its budget.

Theory: a tired person looks at the tree with one question, "does anything need me?". The first line answers it. If the
lines do not fit, the least urgent sessions become counts first: those that are done, then those that run well. Sessions
that wait for a person are shown first, then those in trouble, then those that ended badly.

Rules
- Pure: activities, room and `now` come in, lines go out, at most `height` lines of at most `width` cells.
- Text of agents is escaped (`visible`) and cut by the cells that it takes on a screen, never by characters.
- A sign and a word show a state. Colour only repeats it (NO_COLOR, and people who cannot tell red from green).
- A "?" stands for an unknown fact. The tree shows no guesses.

The module has more than 400 lines because all its lines share one layout.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec
from rich.cells import cell_len, set_cell_size
from rich.text import Text

from supervisor.channels.wording.cards import call_text, path_text, summary
from supervisor.core.approvals.facts import instant_text
from supervisor.core.calls.content import shown_content
from supervisor.core.limits import wait_text
from supervisor.core.rows import as_trees
from supervisor.core.sessions.activity import Activity, Doing
from supervisor.core.text.visible import visible

State = Literal["asks", "trouble", "failed", "works", "waits", "done"]
LITTLE: Final = 0.2
"""A run with at most this part of its budget left is in trouble."""

_SIGNS: Final[dict[State, tuple[str, str]]] = {
    "asks": ("?", "bold yellow"),
    "trouble": ("!", "bold magenta"),
    "failed": ("x", "bold red"),
    "works": ("*", ""),
    "waits": (".", "dim"),
    "done": ("+", "dim"),
}
"""Sign and style of each state, the most urgent state first."""
_IN_FULL: Final = ("asks", "trouble", "failed")
"""States whose sessions are shown one by one as far as there is room. Of each other state, all are shown or counted."""
_KINDS: Final = (
    "blocked",
    "approval",
    "budget",
    "limit",
    "call",
    "model_call",
    "step",
    "unknown",
    "back_off",
    "timer",
    "message",
    "children",
)
"""If a run does several things, the first kind in this order is shown."""
_PAUSES: Final = {
    "approval": "you",
    "call": "call",
    "timer": "timer",
    "message": "message",
    "children": "child",
    "budget": "budget",
    "limit": "limit",
}
_WORDS: Final = {
    "approval": "waiting for you",
    "model_call": "model call",
    "message": "waits for a message",
    "budget": "waits: its budget is used up",
    "timer": "sleeps until",
    "back_off": "failed; starts again at",
    "unknown": "? (a step, a model call, or its own code)",
}
_AT: Final = {
    "step": "in a step",
    "model_call": "in a model call",
    "message": "waiting for a message",
    "budget": "waiting for a larger budget",
    "limit": "waiting for a limit",
    "children": "waiting for sub-agents",
    "timer": "asleep till a timer",
}
_WRITES: Final = "writes: "
_AGE: Final = 7
_BUDGET: Final = 16
_COUNTS: Final = 3
"""The most lines of counts."""
_LONGEST_CHARACTERS: Final = 400
"""Characters of an argument that are read for a line."""


def draw_tree(
    activities: Sequence[Activity], width: int, height: int, now: datetime, *, has_cards: bool = False
) -> list[Text]:
    """Return at most `height` lines, none of them wider than `width` cells.

    `has_cards`: cards are shown next to the tree, so that sessions in trouble get the room before those that ask.
    """
    if height < 1 or not activities:
        return []
    states = {each.session: _state(each) for each in activities}
    lines = [_title(activities, states)]
    ordered = as_trees(activities, lambda each: each.session)
    room = height - 1
    if len(ordered) <= room:
        lines += _rows(ordered, states, width, now)
    else:
        going = _with_parents(ordered, {each.session for each in ordered if states[each.session] != "done"})
        if len(going) < room:
            lines += _rows(going, states, width, now)
            shown = {each.session for each in going}
            lines += _counts([each for each in ordered if each.session not in shown], states, width, 1)
        else:
            urgent = sorted(_SIGNS, key=lambda state: state == "asks") if has_cards else list(_SIGNS)
            lines += _most_urgent(ordered, states, urgent, width, room, now)
    for line in lines:
        line.truncate(width, overflow="ellipsis")
    return lines[:height]


def _state(each: Activity) -> State:
    if each.outcome is not None:
        return "done" if each.outcome in ("succeeded", "cancelled") else "failed"
    if each.asks:
        return "asks"
    if _is_short(each) or _is_failing(each) or (each.is_unrun and each.parent is None):
        return "trouble"
    if each.is_unrun or each.clock == "asleep" or (each.doing and all(_waits(doing) for doing in each.doing)):
        return "waits"
    return "works"


def _is_short(each: Activity) -> bool:
    """Whether little of its budget is left."""
    return each.budget is not None and each.budget_left is not None and each.budget_left <= LITTLE * each.budget


def _is_failing(each: Activity) -> bool:
    """Whether it waits for a restart after a failure, or is blocked."""
    return any(doing.kind in ("back_off", "blocked") for doing in each.doing)


def _waits(doing: Doing) -> bool:
    return doing.kind in ("timer", "message", "children", "budget", "limit", "left")


def _title(activities: Sequence[Activity], states: dict[str, State]) -> Text:
    """Return the first line: how many sessions are in which state."""
    roots = dict.fromkeys(each.root for each in activities)
    counts = Counter(states.values())
    subject = visible(next(iter(roots))) if len(roots) == 1 else f"{len(roots)} trees"
    text = Text(f"{subject}: ", style="default", no_wrap=True)
    words = {
        "asks": f"{counts['asks']} wait{'s' if counts['asks'] == 1 else ''} for you",
        "trouble": f"{counts['trouble']} in trouble",
        "failed": f"{counts['failed']} failed",
        "works": f"{counts['works']} at work",
        "waits": f"{counts['waits']} waiting",
        "done": f"{counts['done']} done",
    }
    parts = [(word, _SIGNS[state][1]) for state, word in words.items() if counts[state]]  # type: ignore[index] # the keys are states
    for place, (word, style) in enumerate(parts):
        text.append(word, style=style).append(" · " if place + 1 < len(parts) else "", style="dim")
    return text


def _with_parents(ordered: Sequence[Activity], wanted: set[str]) -> list[Activity]:
    """Return the wanted sessions and all their parents; each child comes after its parent."""
    kept = set(wanted)
    for each in reversed(ordered):
        if each.session in kept and each.parent is not None:
            kept.add(each.parent)
    return [each for each in ordered if each.session in kept]


def _most_urgent(
    ordered: Sequence[Activity],
    states: dict[str, State],
    urgent: Sequence[State],
    width: int,
    room: int,
    now: datetime,
) -> list[Text]:
    """Show the sessions that need a person, and count the rest."""
    counted = _counts(ordered, states, width, min(_COUNTS, max(1, room // 3)))
    room -= len(counted)
    shown: list[Activity] = []
    for state in urgent:
        found = sorted(
            (each for each in ordered if states[each.session] == state), key=lambda each: _urgency(each, now)
        )
        left = room - len(shown)
        if len(found) <= left or state in _IN_FULL:
            shown += found[:left]
    names = {each.session for each in shown}
    rest = [each for each in ordered if each.session not in names]
    lines = _rows(shown, states, width, now, is_flat=True)
    return lines + _counts(rest, states, width, len(counted), more=bool(shown))


def _urgency(each: Activity, now: datetime) -> tuple[float, float]:
    """Return the order within one state: the least budget left first, then the longest wait; of ended sessions, the
    latest end first."""
    age = (now - _since(each)).total_seconds()
    if each.outcome is not None:
        return (0.0, age)
    has_budget = each.budget and each.budget_left is not None
    return (each.budget_left / each.budget if has_budget else 1.0, -age)  # type: ignore[operator] # both are there


def _rows(
    shown: Sequence[Activity], states: dict[str, State], width: int, now: datetime, *, is_flat: bool = False
) -> list[Text]:
    """Return one line for each session: sign, name, activity, age, and budget."""
    depths = {each.session: len(each.path) - 1 for each in shown}
    top = min(depths.values(), default=0)
    has_many = len({each.root for each in shown}) > 1
    names = [
        _path(each, has_many=has_many) if is_flat else "  " * (depths[each.session] - top) + _name(each)
        for each in shown
    ]
    widest = max((cell_len(name) for name in names), default=0)
    name_width = min(widest, max(8, width // 3 if is_flat else width // 4 + 4))
    age_width = _AGE if width >= 40 else 0
    budget_width = _BUDGET if width >= 64 else 0
    doing_width = width - 2 - name_width - 2 - age_width - budget_width - 1
    lines = []
    for each, name in zip(shown, names, strict=True):
        state = states[each.session]
        sign, style = _SIGNS[state]
        if each.outcome == "cancelled":
            sign = "-"
        line = Text(no_wrap=True)
        line.append(f"{sign} ", style=style)
        cut = _cut_left(name, name_width) if is_flat else _cut(name, name_width)
        line.append(_padded(cut, name_width), style="default" if state in _IN_FULL else style)
        if doing_width >= 8:
            doing = _writes(each, doing_width) or _cut(_doing(each, now), doing_width)
            line.append("  ").append(_padded(doing, doing_width), style=style)
        if age_width:
            line.append(_age(_since(each), now).rjust(age_width), style="dim")
        if budget_width and (budget := _budget(each, now)):
            line.append("  " + budget, style=style if state == "trouble" else "dim")
        line.rstrip()
        lines.append(line)
    return lines


def _name(each: Activity) -> str:
    return visible(each.agent) if each.parent is not None else f"{visible(each.agent)} [{visible(each.session)}]"


def _path(each: Activity, *, has_many: bool) -> str:
    """Return the path of a session whose parents are not shown; with the root session if there are many trees."""
    if each.parent is None:
        return _name(each)
    return path_text((each.root, *each.path[1:]) if has_many else each.path[1:])


def _since(each: Activity) -> datetime:
    first = _first(each)
    return first.since if each.outcome is None and first is not None and first.since is not None else each.heard_at


def _first(each: Activity) -> Doing | None:
    found = [doing for doing in each.doing if doing.kind != "left"]
    return min(found, key=lambda doing: _KINDS.index(doing.kind), default=None)


def _doing(each: Activity, now: datetime) -> str:
    """Return what a session does, or how it ended, in words."""
    left = [doing for doing in each.doing if doing.kind == "left"]
    runs_on = f"; still runs: {', '.join(visible(doing.name) for doing in left)}" if left else ""
    if each.outcome is not None:
        cause = visible((each.cause or "")[:_LONGEST_CHARACTERS], kind="words")
        word = "completed" if each.outcome == "succeeded" else each.outcome
        return (cause if cause.startswith(word) else f"{word}: {cause}" if cause else word) + runs_on
    first = _first(each)
    text = "at work" if first is None else _told(first, now)
    if (others := len(each.doing) - len(left) - 1) > 0:
        text += f" (+{others} more)"
    text += f" · {each.usage}" if each.usage else ""
    text += runs_on
    if not each.is_unrun or each.asks:
        return text
    return "no process runs it" if first is None or first.kind == "unknown" else f"no process runs it; last: {text}"


def _writes(each: Activity, width: int) -> str:
    """Return the end of the text that a session is writing; empty if a person has more to see than that."""
    if not each.writing or each.outcome is not None or each.asks:
        return ""
    room = width - cell_len(_WRITES)
    return _WRITES + _cut_left(visible(" ".join(each.writing.split()), kind="prose"), room) if room >= 8 else ""


def _told(doing: Doing, now: datetime) -> str:
    match doing.kind:
        case "approval" if doing.approval is not None:
            short = msgspec.structs.replace(doing.approval, arguments=_shortened(doing.approval.arguments))
            return f"{_WORDS['approval']}: {summary(short, _LONGEST_CHARACTERS)}"
        case "call":
            return call_text(shown_content(doing.name, _shortened(doing.arguments), command=doing.command))
        case "step":
            return f"step {visible(doing.name)}"
        case "blocked":
            return f"blocked: {visible(doing.name)}"
        case "children":
            return f"waits for {visible(doing.name) if doing.count == 1 and doing.name else _many(doing.count)}"
        case "limit":
            return _limit(doing, now)
        case "timer" | "back_off" if doing.until is not None:
            return f"{_WORDS[doing.kind]} {instant_text(doing.until, now)}"
        case kind:
            return _WORDS[kind]


def _limit(doing: Doing, now: datetime) -> str:
    return wait_text(visible(doing.name), doing.place, doing.count) + (
        f", since {instant_text(doing.since, now)}" if doing.since is not None else ""
    )


def _many(count: int) -> str:
    return f"{count} sub-agent{'' if count == 1 else 's'}"


def _budget(each: Activity, now: datetime) -> str:
    """Return how much of its budget is left, or why the watchdog is paused."""
    if each.outcome is not None:
        return ""
    if each.clock == "asleep":
        return "asleep"
    if each.owner is None:
        return "stopped"
    if each.clock == "unknown":
        return f"? heard {_age(each.heard_at, now)}"
    if each.budget_left is not None:
        return f"{_seconds(each.budget_left)} left"
    first = _first(each)
    return f"paused: {_PAUSES[first.kind]}" if first is not None and first.kind in _PAUSES else "paused"


def _counts(
    rest: Iterable[Activity], states: dict[str, State], width: int, room: int, *, more: bool = False
) -> list[Text]:
    """Return lines that count the sessions that are not shown, the most urgent states first."""
    found: dict[State, Counter[str]] = {state: Counter() for state in _SIGNS}
    for each in rest:
        found[states[each.session]][_kind(each, states[each.session])] += 1
    words = [
        (f"{count} {'more ' if more and state in _IN_FULL else ''}{word}", _SIGNS[state][1])
        for state, counter in found.items()
        for word, count in counter.most_common()
    ]
    lines: list[Text] = []
    for word, style in words:
        if not lines or lines[-1].cell_len + cell_len(word) + 3 > width:
            if len(lines) == room:
                lines[-1].append(" …", style="dim")
                break
            lines.append(Text("  ", no_wrap=True))
        else:
            lines[-1].append(" · ", style="dim")
        lines[-1].append(word, style=style)
    return lines


def _kind(each: Activity, state: State) -> str:
    """Return in a few words what a session does, so that equal ones are counted together."""
    first = _first(each)
    match state:
        case "asks":
            return "waiting for you"
        case "trouble":
            return "run by no process" if each.is_unrun else "failing" if _is_failing(each) else "short of budget"
        case "failed":
            return str(each.outcome)
        case "done":
            return "completed" if each.outcome == "succeeded" else str(each.outcome)
    if each.is_unrun:
        return "stopped with their tree"
    if first is not None and first.kind == "call":
        return f"in {_cut(visible(first.name[:_LONGEST_CHARACTERS]), 20)}"
    return "at work" if first is None else _AT.get(first.kind, "at work (? on what)")


def _age(since: datetime, now: datetime) -> str:
    return _seconds(max(0.0, (now - since).total_seconds()))


def _seconds(seconds: float) -> str:
    """Return a duration in its largest unit, so that a long one seldom changes on the screen."""
    whole = int(seconds)
    for size, unit in ((172_800, "d"), (7_200, "h"), (120, "min")):
        if whole >= size:
            return f"{whole // {'d': 86_400, 'h': 3_600, 'min': 60}[unit]} {unit}"
    return f"{whole} s"


def _cut(text: str, cells: int) -> str:
    """Return a text cut to at most `cells`, with an ellipsis if it was cut."""
    return text if cell_len(text) <= cells else set_cell_size(text, max(0, cells - 1)).rstrip() + "…"


def _cut_left(text: str, cells: int) -> str:
    """Return a text cut from the left to at most `cells`: the end of a path tells more than its beginning."""
    if cell_len(text) <= cells:
        return text
    kept = text
    while kept and cell_len(kept) > cells - 1:
        kept = kept[1:]
    return "…" + kept


def _padded(text: str, cells: int) -> str:
    return text + " " * max(0, cells - cell_len(text))


def _shortened(value: Any, depth: int = 3) -> Any:
    """Return a value without the parts that no line can show, so that a huge argument costs little."""
    if isinstance(value, str):
        return value[:_LONGEST_CHARACTERS]
    if isinstance(value, list | tuple):
        return [_shortened(item, depth - 1) for item in value[:40]] if depth else []
    if isinstance(value, dict):
        return {key[:80]: _shortened(item, depth - 1) for key, item in list(value.items())[:10]} if depth else {}
    return value
