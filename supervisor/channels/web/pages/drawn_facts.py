"""The facts of a card as a page draws them: coloured, folded, each in its direction. Two arguments that are a text and
its replacement are one fact, which shows what changes."""

from typing import Final

import msgspec

from supervisor.channels.web.pages.markup import Language, Part, Span, count_changes, parts, rows_of, text_change
from supervisor.core.approvals import facts
from supervisor.core.approvals.drawing import direction_of, draw_code
from supervisor.core.approvals.facts import name_text
from supervisor.core.values import Approval

LONG_LINES: Final = 24
"""Lines of an argument above which the card gives its length."""
_PAIRS: Final = (("old_string", "new_string"), ("old_str", "new_str"), ("old_text", "new_text"), ("old", "new"))
"""Names that tools give to a text and to its replacement. A page shows the difference of the two."""


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact of the card, or the difference of two arguments. `kind` is its class in the style sheet, too."""

    kind: facts.Kind
    label: str
    parts: tuple[Part, ...]
    language: Language
    note: str = ""
    """How much it is, in our words: lines of a long text, or what a change adds and removes."""
    is_default: bool = False
    direction: str = "ltr"
    """Its `dir`: from left to right, or that of its first letter."""

    @property
    def spans(self) -> tuple[Span, ...]:
        """What is in sight before anything is unfolded."""
        return tuple(span for part in self.parts if not part.fold for span in part.spans)

    @property
    def length(self) -> int:
        return sum(len(span.text) for part in self.parts for span in part.spans)

    @property
    def rows(self) -> int:
        """About how many rows of a phone are in sight of it."""
        return 1 + sum(rows_of(span.text) for span in self.spans)

    @property
    def is_block(self) -> bool:
        return self.language != "text" or len(self.parts) > 1 or any("\n" in span.text for span in self.spans)


def change_of(approval: Approval) -> tuple[tuple[str, ...], Fact | None]:
    """Return the names of a text and of its replacement among the arguments, and what their difference shows; no names
    if there are none."""
    given = approval.arguments
    if not isinstance(given, dict):
        return (), None
    hidden = {*approval.claims, *approval.defaults, approval.command}
    for old, new in _PAIRS:
        before, after = given.get(old), given.get(new)
        if isinstance(before, str) and isinstance(after, str) and not hidden & {old, new}:
            text = text_change(draw_code(before).text, draw_code(after).text)
            label = f"{name_text(old)} → {name_text(new)}"
            made = facts.Fact(kind="argument", name=label, text=text)
            return (old, new), drawn_fact(made, "change", label)
    return (), None


def drawn_fact(each: facts.Fact, language: Language, label: str = "") -> Fact:
    """Return a fact as a page draws it. `label`: its own, if it is not that of the fact."""
    cut = tuple(parts(each.text, language))
    lines = each.text.count("\n") + 1
    length = f"{lines} lines" if lines > LONG_LINES else f"{len(each.text)} characters" if len(cut) > 1 else ""
    changed = count_changes(span for part in cut for span in part.spans) if language in ("patch", "change") else ""
    return Fact(
        kind=each.kind,
        label=label or each.label,
        parts=cut,
        language=language,
        note=changed or length,
        is_default=each.is_default,
        direction=_direction(each, language),
    )


def _direction(each: facts.Fact, language: Language) -> str:
    """Return the direction in which a page lays a fact out: prose by its first letter, what runs from left to right."""
    if each.kind in ("question", "because"):
        return "ltr" if each.name == facts.WANTS else "auto"
    is_text = each.kind in ("argument", "claim") and language == "text" and not each.is_ordered
    return direction_of(each.text) if is_text else "ltr"
