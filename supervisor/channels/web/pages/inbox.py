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
from supervisor.channels.web.pages.markup import Language, Span, change, language_of, spans
from supervisor.channels.wording.cards import (
    NUMBERS,
    ORDERED,
    ago,
    arguments_facts,
    asked_facts,
    decided,
    headline,
    is_default,
    make_card,
    path_text,
    place,
    quoted,
    without_place,
)
from supervisor.channels.wording.drawing import direction_of, draw_code
from supervisor.channels.wording.form_words import fields_of
from supervisor.channels.wording.granting import HOW_LONG, WIDER, grants, reach
from supervisor.core.approvals.questions import is_yes_or_no, read_answer
from supervisor.core.errors import InvalidInput
from supervisor.core.text.visible import json_text, visible
from supervisor.core.values import Answer, Approval, Approve, Decision

LONG: Final = 24
"""Lines. A longer argument gets a line with its length, and it scrolls once the approval is decided."""
_PAIRS: Final = (("old_string", "new_string"), ("old_str", "new_str"), ("old_text", "new_text"), ("old", "new"))
"""Names that tools give to a text and to its replacement. A page shows the difference of the two."""


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One argument, or the difference of two."""

    label: str
    spans: tuple[Span, ...]
    language: Language
    lines: int
    direction: str = "ltr"
    """Its `dir`: from left to right, or that of its first letter."""

    @property
    def is_default(self) -> bool:
        return is_default(self.label)

    @property
    def is_block(self) -> bool:
        return self.language != "text" or self.lines > 1

    @property
    def is_long(self) -> bool:
        return self.lines > LONG


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
    facts, unset = _question_facts(approval, form) if is_question else _facts(approval)
    path = path_text(approval.path)
    return CardView(
        id=approval.id,
        session=approval.session,
        root=approval.root_session,
        agent=approval.agent,
        path=path,
        asks=headline(approval).removeprefix(path).strip(),
        facts=facts,
        unset=unset,
        where="" if is_question else place(approval, approval.arguments),
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
    facts = asked_facts(approval)
    if approval.choices is not None or form is not None:
        facts.pop()
    return tuple(_fact(label, text, "text", "ltr" if label == "wants" else "auto") for label, text in facts), ""


def _replies(approval: Approval) -> list[Reply]:
    if approval.choices is not None:
        choices = enumerate(approval.choices)
        return [Reply(str(place), quoted(choice), NUMBERS[place : place + 1]) for place, choice in choices]
    return [Reply("yes", "yes", "y"), Reply("no", "no", "n")] if is_yes_or_no(approval.schema) else []


def _facts(approval: Approval) -> tuple[tuple[Fact, ...], str]:
    """Return the arguments that are set, and the names of those that are not."""
    rest, found = without_place(approval.arguments), list[Fact]()
    if isinstance(rest, dict):
        for old, new in _PAIRS:
            before, after = rest.get(old), rest.get(new)
            if isinstance(before, str) and isinstance(after, str):
                text = change(draw_code(before).text, draw_code(after).text)
                if text is not None:
                    found.append(_fact(f"{old} → {new}", text, "change"))
                    rest = {name: value for name, value in rest.items() if name not in (old, new)}
    plain, defaults, unset = list[Fact](), list[Fact](), ""
    for label, text in arguments_facts(rest, approval.command, approval.defaults):
        if label == "not set":
            unset = text
        else:
            is_command = label == visible(approval.command or "")
            language = language_of(label, text, is_command=is_command)
            is_text = language == "text" and label not in (ORDERED, "run by")
            fact = _fact(label, text, language, direction_of(text) if is_text else "ltr")
            (defaults if fact.is_default else plain).append(fact)
    return (*plain, *found, *defaults), unset


def _fact(label: str, text: str, language: Language, direction: str = "ltr") -> Fact:
    lines = text.count("\n") + 1
    return Fact(label=label, spans=tuple(spans(text, language)), language=language, lines=lines, direction=direction)


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
MOST_TEXT: Final = 1_000_000
"""The most characters on the cards of one page, without the last card. Every other client waits while a page is
drawn."""


def inbox(first: Sequence[Approval], pending: int, now: datetime, refusal: Callable[[Approval], str | None]) -> Inbox:
    """Return the page of pending approvals. `first`: the oldest ones; `pending`: the number of all; `refusal`: says why
    the reader may not decide an approval."""
    shown, length = list[CardView](), 0
    for each in first:
        if length > MOST_TEXT:
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
