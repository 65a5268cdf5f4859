"""An approval as a row and as a card on a page: the call that would run, and the effect of each choice.

The texts come from channels/wording/cards.py and granting.py, which all surfaces share. This module adds colours, forms
and sections.

Rules
- The inbox has a section for each root session, and a row for each approval: what runs, where, who asks, since when. A
  row is cut; opening it shows its card. Questions and what expires first stand on top. A few cards are open at once.
- A card shows the whole call. No part scrolls: the buttons stand below all of it. Folded are only unchanged lines of a
  change, and the middle of a long text or of many facts, which the page unfolds before its own Approve counts
  (markup.py).
- A screen reader tells two cards apart that run different things: the name of a card says what, where and for whom.
- Where a person grants a standing rule, the card shows its tool and pattern, and which calls it will not ask about.
- A decided card says who decided and when, keeps the request, and has no buttons.
"""

from bisect import bisect, bisect_left
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import accumulate
from typing import Any, Final

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from supervisor.channels.chat import presses
from supervisor.channels.web.pages.drawn_facts import Fact, change_of, drawn_fact
from supervisor.channels.web.pages.forms import FormView, form_view, read_form
from supervisor.channels.web.pages.markup import language_of
from supervisor.channels.web.pages.rows import Row, row_of
from supervisor.channels.wording.cards import NUMBERS, all_facts, make_card, path_text, quoted
from supervisor.channels.wording.form_words import fields_of
from supervisor.channels.wording.granting import WIDER, grants, reach
from supervisor.core.approvals import facts
from supervisor.core.approvals.questions import is_yes_or_no, read_answer
from supervisor.core.calls.told import programs_told
from supervisor.core.errors import InvalidInput
from supervisor.core.text.visible import json_text, visible
from supervisor.core.values import Answer, Approval, Approve, Decision


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A way to approve that also allows later calls. `value`: what the form sends of the code of its button."""

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
    """The card of one approval or question."""

    row: Row
    session: str
    facts: tuple[Fact, ...]
    unset: str
    decided_at: datetime | None
    effects: dict[str, str]
    """The effect of each choice, by its word, in the same words as on every other surface."""
    is_question: bool
    replies: tuple[Reply, ...]
    """Answers to choose from. If there are none, the answer is a text."""
    escalated_to: tuple[str, ...]
    block: str
    """What it means that the session which asks is blocked; "" if it is not, or if that matters no more."""
    grants: tuple[Grant, ...]
    edit_text: str
    """The arguments as JSON, for an edit; "" if the call is not editable."""
    form: FormView | None
    """The fields of the answer, or of an edit; None if there are none. Each can also be given as JSON."""
    has_masked: bool
    """Whether a mask hides some of them. An edit that keeps the mask keeps the value."""
    refusal: str | None
    """Why the reader may not decide it; None if the reader may."""
    keeps_facts: bool = False
    """Whether the page keeps the facts that it shows, so that they are not drawn again."""

    @property
    def id(self) -> str:
        return self.row.id

    @property
    def where(self) -> str:
        return self.row.where

    @property
    def is_pending(self) -> bool:
        return self.row.tone == "pending"

    @property
    def in_parts(self) -> tuple[Sequence[Fact], Sequence[Fact], Sequence[Fact]]:
        """Its facts, of which the second part is folded if all of them are more than a person scrolls through."""
        rows = [fact.rows for fact in self.facts]
        before = list(accumulate(rows, initial=0))  # the rows before each fact
        if before[-1] <= MOST_ROWS_OF_FACTS:
            return self.facts, (), ()
        first = max(1, bisect(before, MOST_ROWS_OF_FACTS // 2) - 1)
        last = max(first, bisect_left(before, before[-1] - MOST_ROWS_OF_FACTS // 4))
        return self.facts[:first], self.facts[first:last], self.facts[last:]

    @property
    def length(self) -> int:
        return sum(fact.length for fact in self.facts)


def card_view(
    approval: Approval,
    now: datetime,
    *,
    refusal: str | None = None,
    typed: Mapping[str, str] | None = None,
    problem: str = "",
    has_facts: bool = False,
) -> CardView:
    """Return the card of an approval in any state. `refusal`: why this reader may not decide it; `typed`: the form that
    the reader has sent, and `problem` what is wrong with it; `has_facts`: whether the page shows the facts of the call
    as it was asked. A decided one keeps them: what is long is neither drawn nor laid out again."""
    is_pending, is_question = approval.status == "pending", approval.kind == "question"
    form = _form(approval, typed, problem) if is_pending and refusal is None else None
    keeps = has_facts and not (is_pending or is_question or approval.edited or approval.with_votes_of)
    shown, unset = ((), "") if keeps else _question_facts(approval, form) if is_question else _facts(approval)
    return CardView(
        row=row_of(approval, now),
        session=approval.session,
        facts=shown,
        unset=unset,
        decided_at=approval.decided_at,
        effects={choice.word: choice.effect for choice in make_card(approval, now).choices},
        is_question=is_question,
        replies=tuple(_replies(approval)) if is_question else (),
        escalated_to=approval.escalated_to,
        block=_BLOCKED.get(approval.status, "") if approval.blocked else "",
        grants=tuple(wider(approval)) if is_pending else (),
        edit_text=json_text(approval.arguments, indent=2) if is_pending and approval.editable else "",
        form=form,
        has_masked=bool(approval.secret),
        refusal=refusal if is_pending else None,
        keeps_facts=keeps,
    )


def _form(approval: Approval, typed: Mapping[str, str] | None, problem: str) -> FormView | None:
    field = fields_of(approval)
    if field is None or (field.kind == "json" and approval.kind == "question"):
        return None
    value = approval.arguments if approval.kind == "call" else UNSET
    return form_view(field, approval.id, value, typed if typed and "fields" in typed else None, problem)


_BLOCKED: Final = {
    "pending": "blocked: the agent's code no longer fits its journal; a decision takes effect once it does",
    "approved": "it has not run: the session is blocked; it runs once the agent's code fits its journal",
}
"""What the block of a session means for an approval in each state."""


def _question_facts(approval: Approval, form: FormView | None) -> tuple[tuple[Fact, ...], str]:
    """Return the text of a question and what its answer is, without its choices, which are buttons, and without the
    fields that its form has."""
    asked = [each for each in _of_card(approval) if each.kind == "question"]
    if approval.choices is not None or form is not None:
        asked.pop()
    others = [each for each in _of_card(approval) if each.kind != "question"]
    return tuple(drawn_fact(each, "text") for each in (*asked, *others)), ""


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
    pair, changed = change_of(approval)
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
            found.append(drawn_fact(each, language))
            if is_command and (told := programs_told(approval.arguments[each.name])):
                found.append(drawn_fact(facts.Fact(kind="ours", name="programs", text=visible(told)), "text"))
    return tuple(found), unset


def wider(approval: Approval) -> list[Grant]:
    """Return the ways to approve that also allow later calls, with a description of those calls (A7)."""
    return [
        Grant(
            value=grant.code.removeprefix("approve."),
            words=grant.words,
            pattern=f"{visible(approval.tool)} {grant.pattern}",
            effect=f"{grant.covers}; not asked again {reach(approval, scope, grant.allowance)}",
        )
        for scope in WIDER
        for grant in grants(approval, scope)
    ]


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the inbox, with its card if that is open."""

    row: Row
    view: CardView | None = None


class Section(msgspec.Struct, frozen=True, kw_only=True):
    """The rows of one root session, or, with `root` "", what must not wait for its turn."""

    root: str
    title: str
    entries: tuple[Entry, ...]

    @property
    def oldest(self) -> datetime:
        return min(each.row.created_at for each in self.entries)


class Inbox(msgspec.Struct, frozen=True, kw_only=True):
    """The sections of one page."""

    sections: tuple[Section, ...]
    left_out: int
    """The number of pending approvals that are not on the page."""

    most_open: int = 0
    """So many pending approvals, and not more, are open."""

    @property
    def cards(self) -> list[CardView]:
        """The cards that are open."""
        return [each.view for section in self.sections for each in section.entries if each.view is not None]


MOST_ROWS_OF_FACTS: Final = 160
"""The most rows of one card that are in sight before a person unfolds its middle: some five screens of a phone."""
MOST_ROWS: Final = 500
"""The most approvals on one page."""
OPEN_CARDS: Final = 5
"""So many approvals, and not more, are open when the page is loaded: a person with one request opens nothing."""
MOST_FIRST: Final = 10
"""The most rows on top that are not in the section of their session."""
MOST_TEXT_CHARACTERS: Final = 1_000_000
"""The most characters on the open cards of one page, without the last card. Every other client waits while a page is
drawn."""


def inbox(first: Sequence[Approval], pending: int, now: datetime, refusal: Callable[[Approval], str | None]) -> Inbox:
    """Return the page of pending approvals. `first`: the oldest ones; `pending`: the number of all; `refusal`: says why
    the reader may not decide an approval."""
    in_order = sorted(first, key=_urgency)
    urgent = [each for each in in_order if _is_urgent(each)][:MOST_FIRST] if len(first) > OPEN_CARDS else []
    groups: dict[str, list[Approval]] = {"": urgent} if urgent else {}
    known = {each.id for each in urgent}
    for each in in_order:
        if each.id not in known:
            groups.setdefault(each.root_session, []).append(each)
    length, sections = 0, list[Section]()
    for root, found in groups.items():
        entries = list[Entry]()
        for each in found:
            is_open = len(first) <= OPEN_CARDS and length <= MOST_TEXT_CHARACTERS
            view = card_view(each, now, refusal=refusal(each)) if is_open else None
            length += view.length if view is not None else 0
            entries.append(Entry(row=view.row if view is not None else row_of(each, now), view=view))
        title = path_text(found[0].path[:1]) if root else FIRST
        sections.append(Section(root=root, title=title, entries=tuple(entries)))
    left_out = max(0, pending - len(first))
    return Inbox(sections=tuple(sections), left_out=left_out, most_open=OPEN_CARDS)


FIRST: Final = "Questions, and what expires first"
_NEVER: Final = datetime.max.replace(tzinfo=UTC)


def _is_urgent(approval: Approval) -> bool:
    return approval.kind == "question" or approval.expires_at is not None


def _urgency(approval: Approval) -> tuple[bool, bool, datetime, datetime]:
    """Return the key that sorts questions before calls, and what expires first before what waits longest."""
    expires_at = approval.expires_at or _NEVER
    return approval.kind != "question", approval.expires_at is None, expires_at, approval.created_at


def decision_of(approval: Approval, form: Mapping[str, str], by: str) -> Decision:
    """Return the decision that a card's form makes. Raises InvalidInput, with a text for the person who sent it."""
    match form.get("decision"):
        case "approve" if "grant" in form:
            code = form["grant"]
            return presses.decision_of(code if "." in code else f"approve.{code}", approval, by)
        case "approve":
            return Approve(by=by)
        case "answer" if approval.choices is not None:
            return presses.decision_of(f"choose.{form.get('reply', '')}", approval, by)
        case "answer" | "edit" as verb if "fields" in form:
            field = fields_of(approval)
            if field is None or (verb == "answer") != (approval.kind == "question"):
                raise InvalidInput("this approval has no such form; load the page again")
            value = read_form(field, form)
            return (
                Answer(value=value, by=by)
                if verb == "answer"
                else Approve(arguments=value, by=by, seen=form.get("seen"))
            )
        case "answer":
            return Answer(value=_answer(approval, form), by=by)
        case "edit":
            edited = presses.decision_of(presses.EDIT, approval, by, form.get("arguments", ""))
            return replace(edited, seen=form.get("seen")) if isinstance(edited, Approve) else edited
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
