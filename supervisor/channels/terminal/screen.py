"""Draws the terminal's region: the tree of runs, the selected card, a line for each other card, and the keys. Pure,
except that it reads the console's size.

Rules
- Texts come from `cards` and are safe for a screen. This module interprets no markup in them.
- The selected card comes first, with its keys or the typed line below it. The other cards and the tree get the
  remaining room.
- The region never grows beyond the screen. A line counts what does not fit, and the desk learns that the card was not
  shown whole.
"""

from collections.abc import Sequence
from datetime import datetime
from itertools import groupby
from typing import Final

from rich.box import ROUNDED
from rich.cells import cell_len, chop_cells, set_cell_size
from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.segment import Segment, Segments
from rich.table import Table
from rich.text import Text

from supervisor.channels.terminal.desk import Desk
from supervisor.channels.terminal.line import Line
from supervisor.channels.terminal.tree import draw_tree
from supervisor.channels.wording.cards import GUTTER, Card, make_card, path_text, summary, with_gutter
from supervisor.channels.wording.form_words import has_form
from supervisor.channels.wording.granting import HOW_LONG, reach
from supervisor.core.approvals.facts import ago
from supervisor.core.sessions.activity import Activity
from supervisor.core.text.visible import visible
from supervisor.core.values import Approval, Scope

CALM: Final = "yellow"
_ROWS_OF_LIST: Final = 5
"""Rows for other pending approvals; one more row counts the rest."""
_ROWS_OF_LINE: Final = 4
"""Rows for the line that a person types."""
_LONGEST_LABEL: Final = 30
"""Cells of the column of labels, at most, and no more than a third of the screen. A longer label is folded, and each
further line of it has a gutter: an argument may have any name, which hides no value and imitates no line of ours."""
_STOP: Final = ("Ctrl-C", "stop for now")
_NEXT: Final = "Enter next   Up back   Esc later"
_LABELS: Final = {
    "answer": ("Answer: ", "Enter answers   Esc goes back"),
    "reason": ("Why not? ", "Enter denies (the reason may be empty)   Esc goes back"),
    "field": ("", ""),
    "arguments": ("Arguments: ", "Enter shows the card with them; nothing runs yet   Esc goes back"),
}
"""The text before each line that a person types for a card, and the text below it: the effect of its keys."""


def open_console() -> Console:
    """Return a console on stderr that takes texts as they are."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False)


Lines = list[list[Segment]]


def draw_region(desk: Desk, activities: Sequence[Activity], console: Console, now: datetime) -> Lines:
    """Return the lines of the region: the cards that wait for the person, and the tree of runs above them."""
    cards = console.render_lines(draw(desk, console, now) if desk.pending else _alone(desk, console), pad=False)
    room = console.height - 1 - len(cards)
    tree = draw_tree(activities, console.width, room, now, has_cards=bool(desk.pending))
    return [line for text in tree for line in console.render_lines(text, pad=False)] + cards


def draw(desk: Desk, console: Console, now: datetime) -> RenderableType:
    """Return the region of a desk with pending approvals; note in the desk whether the card is shown whole."""
    approval = desk.approval
    if approval is None:
        return Text()
    card = make_card(approval, now, edited=desk.edited.get(approval.id))
    lines = console.render_lines(draw_face(desk, approval, now, console.width, _title(desk)), pad=False)
    keys = console.render_lines(_below(desk, console.width, _keys(desk, card)), pad=False)
    keys = keys[-max(1, console.height - 3) :]
    room = console.height - 1 - len(keys)
    if len(lines) <= room and desk.face not in desk.whole:
        desk.whole.add(desk.face)
        return draw(desk, console, now)  # without the key `v`
    if len(lines) <= room:
        return Group(as_renderable(lines), *_others(desk, console.width, room - len(lines), now), as_renderable(keys))
    kept = max(1, room - 1)
    where = "see above" if desk.face in desk.whole else "v shows them all"
    note = Text(f" … {len(lines) - kept} more lines: {where}", style="bold red", no_wrap=True, overflow="ellipsis")
    return Group(as_renderable(lines[:kept]), note, as_renderable(keys))


def _alone(desk: Desk, console: Console) -> RenderableType:
    """Return the lines below the tree if no card is shown: the typed line, or the keys."""
    if desk.talk is not None:
        return _below(desk, console.width)
    return _key_line([("t", "talk"), _STOP])


def _below(desk: Desk, width: int, keys: RenderableType | None = None) -> RenderableType:
    """Return the desk's message, then the typed line, or else the keys."""
    rows = [Text(desk.message, style="bold red")] if desk.message else []
    if desk.talk is not None:
        label = f"To {visible(desk.talk.session)}: "
        return Group(*rows, _typing(desk.talk.line, label, "Enter sends it   Esc drops it", width))
    if desk.line is not None:
        form = desk.forms.get(desk.selected or "") if desk.typing == "field" else None
        prompt = None if form is None else form.prompt
        words = (
            _LABELS[desk.typing] if prompt is None else (f"{prompt.label or 'answer'}: ", f"{prompt.about}   {_NEXT}")
        )
        return Group(*rows, _typing(desk.line, *words, width))
    return Group(*rows) if keys is None else Group(*rows, keys)


def draw_face(desk: Desk, approval: Approval, now: datetime, width: int = 80, title: str = "") -> RenderableType:
    """Return what is shown of the selected approval: its card, or the patterns of a scope wider than once."""
    if desk.granting is not None:
        return _draw_grants(desk, approval, desk.granting)
    return draw_card(make_card(approval, now, edited=desk.edited.get(approval.id)), width, title)


def _draw_grants(desk: Desk, approval: Approval, scope: Scope) -> RenderableType:
    found = Table.grid(padding=(0, 1))
    found.add_column(style=f"bold {CALM}")
    found.add_column(overflow="fold")
    for number, grant in enumerate(desk.wider, 1):
        found.add_row(str(number), Text(with_gutter(grant.pattern), style="bold"))
        ends = "" if grant.allowance is None else f"{grant.words}: "
        found.add_row("", Text(f"{ends}{grant.covers}", style="dim"))
    head = Text(f"{path_text(approval.path)} asks to call {visible(approval.tool)}: what may run without asking?")
    head.stylize(f"bold {CALM}")
    held = Text(f"This call runs now. Later calls that fit run without asking {reach(approval, scope)}.")
    return Panel(
        Group(head, Text(), found, Text(), held),
        title=Text(f"allow {HOW_LONG[scope]}"),
        title_align="left",
        box=ROUNDED,
        border_style=CALM,
    )


def draw_card(card: Card, width: int = 80, title: str = "") -> RenderableType:
    """Return a card with its facts and the effect of each choice, for a screen of so many cells."""
    most = max(6, min(_LONGEST_LABEL, width // 3))
    labels = (cell_len(fact.label) for fact in card.facts if not fact.is_default)
    least = min(most, max(labels, default=0))
    tables: list[Table] = []  # the labels of default values are long, and would take room from the others
    for has_default, facts in groupby(card.facts, lambda fact: fact.is_default):
        tables.append(table := Table.grid(padding=(0, 1)))
        table.add_column(style="dim", no_wrap=True, min_width=least)
        table.add_column(overflow="fold")
        for fact in facts:
            is_first = fact.kind in ("command", "question") or (fact.kind == "ours" and fact.name == "edited")
            style = "bold" if is_first else "dim" if has_default else ""
            label, *more = chop_cells(fact.label, most - len(GUTTER)) if cell_len(fact.label) > most else [fact.label]
            folded = "".join(f"\n{GUTTER}{each}" for each in more)
            table.add_row(Text(label + folded), Text(with_gutter(fact.text), style=style))
    choices = Table.grid(padding=(0, 1))
    choices.add_column(style=f"bold {CALM}")
    choices.add_column(style="bold", overflow="fold")
    choices.add_column(style="dim", overflow="fold")
    for choice in card.choices:
        choices.add_row(choice.key, choice.word, choice.effect)
    head = Text(card.headline, style=f"bold {CALM}")
    return Panel(
        Group(head, *tables, choices),
        title=Text(title) if title else None,
        title_align="left",
        box=ROUNDED,
        border_style=CALM,
    )


def _title(desk: Desk) -> str:
    if desk.selected is None or len(desk.pending) == 1:
        return "waiting for you"
    return f"{list(desk.pending).index(desk.selected) + 1} of {len(desk.pending)} waiting for you"


def _others(desk: Desk, width: int, room: int, now: datetime) -> list[RenderableType]:
    """Return a line for each of the other approvals, as far as there is room; a last line counts the rest."""
    rows: list[RenderableType] = []
    others = [other for other in desk.pending.values() if other.id != desk.selected]
    shown = max(0, min(_ROWS_OF_LIST, room - (len(others) > room)))
    for other in others[:shown]:
        start = f"   {path_text(other.path[-1:])}  "
        end = f"  {ago(other.created_at, now)}"
        row = Text(start, style="dim", no_wrap=True, overflow="ellipsis")
        row.append(summary(other, max(10, width - len(start) - len(end) - 1)) + end)
        rows.append(row)
    if shown < len(others) and room > 0:
        rows.append(Text(f"   and {len(others) - shown} more", style="dim"))
    return rows


def _keys(desk: Desk, card: Card) -> RenderableType:
    keys = [(choice.key, choice.word) for choice in card.choices]
    if desk.granting is not None:
        keys = [(str(number), "allow this") for number in range(1, len(desk.wider) + 1)] + [("Esc", "back")]
    elif desk.approval is not None and has_form(desk.approval):
        keys.append(("j", "as JSON"))
    if desk.selected in desk.edited and desk.granting is None:
        keys.append(("r", "restore"))
    if desk.face not in desk.whole:
        keys.append(("v", "view whole"))
    if len(desk.pending) > 1 and desk.granting is None:
        keys.append(("Tab", "next"))
    if desk.granting is None:
        keys.append(("t", "talk"))
    keys.append(_STOP)
    return _key_line(keys)


def _key_line(keys: Sequence[tuple[str, str]]) -> Text:
    text = Text(" ")
    for key, word in keys:
        text.append(key, style=f"bold {CALM}").append(f" {word}  ")
    return text


def _typing(line: Line, label: str, hint: str, width: int) -> RenderableType:
    """Return the typed line with its cursor, and the effect of its keys. A long line shows the part near the cursor."""
    before, under, after = (
        visible(part, kind="words")
        for part in (line.text[: line.cursor], line.text[line.cursor : line.cursor + 1], line.text[line.cursor + 1 :])
    )
    room = _ROWS_OF_LINE * width - cell_len(label) - 2
    if cell_len(before) > room:
        before = "…" + before[-room // 2 :]
    rest = max(0, room - cell_len(before))
    if cell_len(after) > rest:
        after = set_cell_size(after, rest).rstrip() + "…"
    text = Text(label, style=f"bold {CALM}")
    text.append(before, style="default not bold")
    text.append(under or " ", style="default reverse not bold")
    text.append(after, style="default not bold")
    return Group(text, Text(hint, style="dim"))


def as_renderable(lines: Lines) -> RenderableType:
    """Return lines as something that can be printed."""
    flat: list[Segment] = []
    for line in lines:
        flat += [*line, Segment.line()]
    return Segments(flat)
