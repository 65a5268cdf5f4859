"""An approval as a card on a page: the call that would run, and the effect of each choice.

The texts come from channels/wording/cards.py and granting.py, which all surfaces share. This module adds colours, forms
and a history.

Rules
- A card shows the whole call. While it is pending no part scrolls: the buttons stand below all of it. A line above a
  long text gives its length.
- Where a person grants a standing rule, the card shows its tool and pattern, and which calls it will not ask about.
- A decided card says who decided and when, keeps the request, and has no buttons.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, Literal

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from supervisor.channels.chat import presses
from supervisor.channels.web.pages.forms import FormView, form_view, read_form
from supervisor.channels.web.pages.markup import Language, Span, language_of, spans, text_change
from supervisor.channels.wording.cards import (
    NUMBERS,
    all_facts,
    decided,
    headline,
    make_card,
    path_text,
    quoted,
)
from supervisor.channels.wording.form_words import fields_of
from supervisor.channels.wording.granting import HOW_LONG, WIDER, grants, reach
from supervisor.core.approvals import facts
from supervisor.core.approvals.drawing import direction_of, draw_code
from supervisor.core.approvals.facts import ago, name_text
from supervisor.core.approvals.questions import is_yes_or_no, read_answer
from supervisor.core.errors import InvalidInput
from supervisor.core.text.visible import json_text, visible
from supervisor.core.values import Answer, Approval, Approve, Decision

LONG_LINES: Final = 24
"""Lines. A longer argument gets a line with its length, and it scrolls once the approval is decided."""
_PAIRS: Final = (("old_string", "new_string"), ("old_str", "new_str"), ("old_text", "new_text"), ("old", "new"))
"""Names that tools give to a text and to its replacement. A page shows the difference of the two."""


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact of the card, or the difference of two arguments. `kind` is its class in the style sheet, too."""

    kind: facts.Kind
    label: str
    spans: tuple[Span, ...]
    language: Language
    lines: int
    is_default: bool = False
    direction: str = "ltr"
    """Its `dir`: from left to right, or that of its first letter."""

    @property
    def is_block(self) -> bool:
        return self.language != "text" or self.lines > 1

    @property
    def is_long(self) -> bool:
        return self.lines > LONG_LINES


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A way to approve that also allows later calls. `value`: the index of its option, which the form sends."""

    value: str
    words: str
    pattern: str
    effect: str


class Reply(msgspec.Struct, frozen=True):
    """One of the answers to a question. `value`: the index of the choice, or yes or no, which the form sends."""

    value: str
    words: str
    key: str = ""
    """The key that chooses it, as in the terminal."""


class CardView(msgspec.Struct, frozen=True, kw_only=True):
    """The card of one approval or question. `tone` is its class in the style sheet."""

    id: str
    session: str
    root: str
    agent: str
    path: str
    asks: str
    facts: tuple[Fact, ...]
    unset: str
    where: str
    requester: str
    created_at: datetime
    since: str
    expires_at: datetime | None
    tone: Literal["pending", "approved", "denied", "gone"]
    ending: str
    decided_at: datetime | None
    effects: dict[str, str]
    """The effect of each choice, by its word, in the same words as on every other surface."""
    is_question: bool
    replies: tuple[Reply, ...]
    """Answers to choose from. If there are none, the answer is a text."""
    escalated_to: tuple[str, ...]
    is_blocked: bool
    """Whether the session that asks is blocked."""
    grants: tuple[Grant, ...]
    edit_text: str
    """The arguments as JSON, for an edit; "" if the call is not editable."""
    form: FormView | None
    """The fields of the answer, or of an edit; None if there are none. Each can also be given as JSON."""
    has_masked: bool
    """Whether a mask hides some of them. An edit that keeps the mask keeps the value."""
    refusal: str | None
    """Why the reader may not decide it; None if the reader may."""

    @property
    def is_pending(self) -> bool:
        return self.tone == "pending"

    @property
    def name(self) -> str:
        """The card's name for screen readers."""
        first = self.facts[0] if self.facts else None
        what = "".join(span.text for span in first.spans).replace("\n", " ")[:80] if first else ""
        return f"{self.path} {self.asks} {what}".strip()


def card_view(
    approval: Approval,
    now: datetime,
    *,
    refusal: str | None = None,
    typed: Mapping[str, str] | None = None,
    problem: str = "",
) -> CardView:
    """Return the card of an approval in any state. `refusal`: why this reader may not decide it; `typed`: the form that
    the reader has sent, and `problem` what is wrong with it."""
    is_pending, is_question = approval.status == "pending", approval.kind == "question"
    form = _form(approval, typed, problem) if is_pending and refusal is None else None
    shown, unset = _question_facts(approval, form) if is_question else _facts(approval)
    path = path_text(approval.path)
    return CardView(
        id=approval.id,
        session=approval.session,
        root=approval.root_session,
        agent=approval.agent,
        path=path,
        asks=headline(approval).removeprefix(path).strip(),
        facts=shown,
        unset=unset,
        where=next((each.text for each in all_facts(approval, now) if each.kind == "place"), ""),
        requester=approval.requester,
        created_at=approval.created_at,
        since=ago(approval.created_at, now),
        expires_at=approval.expires_at,
        tone=_TONES.get(approval.status, "gone"),
        ending="" if is_pending else decided(replace(approval, decided_at=None), now),
        decided_at=approval.decided_at,
        effects={choice.word: choice.effect for choice in make_card(approval, now).choices},
        is_question=is_question,
        replies=tuple(_replies(approval)) if is_question else (),
        escalated_to=approval.escalated_to,
        is_blocked=approval.blocked and is_pending,
        grants=tuple(wider(approval)) if is_pending else (),
        edit_text=json_text(approval.arguments, indent=2) if is_pending and approval.editable else "",
        form=form,
        has_masked=bool(approval.secret),
        refusal=refusal if is_pending else None,
    )


def _form(approval: Approval, typed: Mapping[str, str] | None, problem: str) -> FormView | None:
    field = fields_of(approval)
    if field is None or (field.kind == "json" and approval.kind == "question"):
        return None
    value = approval.arguments if approval.kind == "call" else UNSET
    return form_view(field, approval.id, value, typed if typed and "fields" in typed else None, problem)


_TONES: Final[dict[str, Literal["pending", "approved", "denied", "gone"]]] = {
    "pending": "pending",
    "approved": "approved",
    "answered": "approved",
    "denied": "denied",
}


def _question_facts(approval: Approval, form: FormView | None) -> tuple[tuple[Fact, ...], str]:
    """Return the text of a question and what its answer is, without its choices, which are buttons, and without the
    fields that its form has."""
    asked = [each for each in _of_card(approval) if each.kind == "question"]
    if approval.choices is not None or form is not None:
        asked.pop()
    others = [each for each in _of_card(approval) if each.kind != "question"]
    return tuple(_fact(each, "text") for each in (*asked, *others)), ""


def _replies(approval: Approval) -> list[Reply]:
    if approval.choices is not None:
        choices = enumerate(approval.choices)
        return [Reply(str(place), quoted(choice), NUMBERS[place : place + 1]) for place, choice in choices]
    return [Reply("yes", "yes", "y"), Reply("no", "no", "n")] if is_yes_or_no(approval.schema) else []


_OF_PAGE: Final = ("for", "since", "expires", "blocked", "also asks", "session", "approval")
"""Lines of ours that the page has at other places, with links and times that stay true."""


def _of_card(approval: Approval) -> list[facts.Fact]:
    """Return the facts that the card lists; the place has its own line."""
    found = all_facts(approval, approval.created_at)
    return [each for each in found if each.kind != "place" and not (each.kind == "ours" and each.name in _OF_PAGE)]


def _facts(approval: Approval) -> tuple[tuple[Fact, ...], str]:
    """Return the facts of a call, and the names of the arguments that are not set."""
    pair, changed = _changed(approval)
    found: list[Fact] = []
    unset = ""
    for each in _of_card(approval):
        if each.is_unset:
            unset = each.text
        elif each.kind == "argument" and each.name in pair and not each.is_ordered:
            if changed is not None and each.name == pair[0]:
                found.append(changed)
        else:
            is_ours = each.kind in ("ours", "because")
            named = each.name if each.kind == "argument" else ""
            is_command = each.kind == "command"
            language = "text" if is_ours else language_of(named, each.text, is_command=is_command)
            found.append(_fact(each, language))
    return tuple(found), unset


def _changed(approval: Approval) -> tuple[tuple[str, ...], Fact | None]:
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
            if text is not None:
                label = f"{name_text(old)} → {name_text(new)}"
                made = facts.Fact(kind="argument", name=label, text=text)
                return (old, new), _fact(made, "change", label)
    return (), None


def _fact(each: facts.Fact, language: Language, label: str = "") -> Fact:
    return Fact(
        kind=each.kind,
        label=label or each.label,
        spans=tuple(spans(each.text, language)),
        language=language,
        lines=each.text.count("\n") + 1,
        is_default=each.is_default,
        direction=_direction(each, language),
    )


def _direction(each: facts.Fact, language: Language) -> str:
    """Return the direction in which a page lays a fact out: prose by its first letter, what runs from left to right."""
    if each.kind in ("question", "because"):
        return "ltr" if each.name == facts.WANTS else "auto"
    is_text = each.kind in ("argument", "claim") and language == "text" and not each.is_ordered
    return direction_of(each.text) if is_text else "ltr"


def wider(approval: Approval) -> list[Grant]:
    """Return the ways to approve that also allow later calls, with a description of those calls (A7)."""
    return [
        Grant(
            value=str(approval.options.index(grant.option)),
            words=HOW_LONG[scope],
            pattern=f"{visible(approval.tool)} {grant.pattern}",
            effect=f"{grant.covers}; not asked again {reach(approval, scope)}",
        )
        for scope in WIDER
        for grant in grants(approval, scope)
    ]


class Inbox(msgspec.Struct, frozen=True, kw_only=True):
    """The cards of one page, oldest first."""

    cards: tuple[CardView, ...]
    left_out: int
    """The number of pending approvals after the last card."""


MOST_CARDS: Final = 50
MOST_TEXT_CHARACTERS: Final = 1_000_000
"""The most characters on the cards of one page, without the last card. Every other client waits while a page is
drawn."""


def inbox(first: Sequence[Approval], pending: int, now: datetime, refusal: Callable[[Approval], str | None]) -> Inbox:
    """Return the page of pending approvals. `first`: the oldest ones; `pending`: the number of all; `refusal`: says why
    the reader may not decide an approval."""
    shown, length = list[CardView](), 0
    for each in first:
        if length > MOST_TEXT_CHARACTERS:
            break
        shown.append(card_view(each, now, refusal=refusal(each)))
        length += sum(len(span.text) for fact in shown[-1].facts for span in fact.spans)
    return Inbox(cards=tuple(shown), left_out=max(0, pending - len(shown)))


def decision_of(approval: Approval, form: Mapping[str, str], by: str) -> Decision:
    """Return the decision that a card's form makes. Raises InvalidInput, with a text for the person who sent it."""
    match form.get("decision"):
        case "approve" if "grant" in form:
            return presses.decision_of(f"approve.{form['grant']}", approval, by)
        case "approve":
            return Approve(by=by)
        case "answer" if approval.choices is not None:
            return presses.decision_of(f"choose.{form.get('reply', '')}", approval, by)
        case "answer" | "edit" as verb if "fields" in form:
            field = fields_of(approval)
            if field is None or (verb == "answer") != (approval.kind == "question"):
                raise InvalidInput("this approval has no such form; load the page again")
            value = read_form(field, form)
            return Answer(value=value, by=by) if verb == "answer" else Approve(arguments=value, by=by)
        case "answer":
            return Answer(value=_answer(approval, form), by=by)
        case "edit":
            return presses.decision_of(presses.EDIT, approval, by, form.get("arguments", ""))
        case "deny":
            return presses.decision_of(presses.EXPLAIN, approval, by, form.get("reason", ""))
        case _:
            raise InvalidInput("the form says neither approve nor deny; load the page again")


def _answer(approval: Approval, form: Mapping[str, str]) -> Any:
    """Return the answer to a question without choices, from a button or a typed text."""
    said = form.get("reply", "") or form.get("answer", "")
    if not said.strip():
        raise InvalidInput("that is no answer yet; type one, or decline")
    return read_answer(approval, said.replace("\r\n", "\n"))
