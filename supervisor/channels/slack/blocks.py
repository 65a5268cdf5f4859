"""An approval as Slack's Block Kit: the pending card, the card of an ended approval, and the forms.

Rules
- On cards, texts of agents and tools appear only as plain or preformatted text: there Slack interprets no marks, links
  or mentions. What an agent says to people is Markdown, without mentions and hidden links (channels/chat/prose.py).
- This module keeps every limit of Slack's. A text that does not fit is visibly cut, with a link to the approval's page,
  and a cut card has no button that says yes. Ids and patterns are never cut: an option that cannot be shown whole gets
  no button.
- A process finds a card by the id of its block, even if it does not know that it posted the card.
- Pure: `now` is an argument.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any, Final

import msgspec

from supervisor.channels.chat.modal_fields import ModalField, modal_fields
from supervisor.channels.chat.presses import EXPLAIN, Button, fitting_buttons, form_of, unseen_buttons
from supervisor.channels.chat.prose import pieces
from supervisor.channels.wording.cards import (
    decided,
    headline,
    make_card,
    page_of,
    path_text,
    remark,
    shown_whole,
    summary,
    with_choices,
)
from supervisor.channels.wording.form_words import has_form
from supervisor.channels.wording.lengths import DrawnFact, fit, fit_facts, length
from supervisor.core.approvals.facts import Fact
from supervisor.core.text.visible import visible
from supervisor.core.values import Approval

HEADER: Final = 150
SECTION: Final = 3000
BUTTON: Final = 75
BUTTONS: Final = 20  # in a row of ours; Slack allows 25
ROWS: Final = 5
CONTEXT: Final = 2000
CONFIRM: Final = 300
FORM_TEXT: Final = 3000
FIELDS: Final = 40  # of one form; Slack allows 100 blocks
OPTIONS: Final = 100  # of one choice
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d")
TITLE: Final = 24
BODY_UNITS: Final = 2600
"""UTF-16 units of all facts in one card, so that it stays readable on a phone."""

Block = dict[str, Any]


def card_blocks(
    approval: Approval, now: datetime, link: str | None = None, mentioned: Sequence[str] = ()
) -> list[Block]:
    """Return the blocks of a pending approval. `link`: the address of the web inbox; `mentioned`: ids of people."""
    card = make_card(approval, now)
    facts, unseen = _fit(approval, now)
    buttons, missing = _that_fit(approval)
    if unseen:
        buttons = unseen_buttons(buttons)
    rows = [buttons[first : first + BUTTONS] for first in range(0, len(buttons), BUTTONS)]
    blocks = [
        _header("A question for you" if approval.kind == "question" else f"Approve {visible(approval.tool)}?"),
        _section(card.headline),
        *([{"type": "rich_text", "elements": [_rich(*_mentions(mentioned))]}] if mentioned else ()),
        _facts(facts),
    ]
    if granting := [button for button in buttons if button.grants]:
        lines = [_rich(_text(f"{button.label}: ", bold=True), _text(button.grants)) for button in granting]
        blocks.append({"type": "rich_text", "elements": lines})
    blocks += [
        {
            "type": "actions",
            "block_id": block_id(approval.id) + (f":{number}" if number else ""),
            "elements": [_button(button, approval.id) for button in row],
        }
        for number, row in enumerate(rows)
    ]
    if lacks := remark(approval, unseen, missing, link):
        blocks.append(_context(lacks))
    return blocks


def shown_facts(approval: Approval) -> list[Fact]:
    """Return the facts that a card shows whole."""
    is_named = length(headline(approval)) <= SECTION
    return shown_whole(approval, _fit(approval, approval.created_at)[0], BUTTON) if is_named else []


def _fit(approval: Approval, now: datetime) -> tuple[tuple[DrawnFact, ...], int]:
    """Return the facts as the card shows them, and the number of characters of the request that are missing."""
    card = make_card(approval, now)
    drawn = (
        DrawnFact(fact=fact, label=fact.label, text=fact.text) for fact in with_choices(card.facts, approval, BUTTON)
    )
    facts, unseen = fit_facts(tuple(drawn), BODY_UNITS)
    return facts, unseen + max(0, length(card.headline) - SECTION)


def retired_blocks(approval: Approval, link: str | None = None) -> list[Block]:
    """Return the blocks of an approval that has ended: a card without buttons."""
    block = _section(f"{fit(headline(approval), 500)}\n{summary(approval, 200)}")
    block["block_id"] = block_id(approval.id)
    page = page_of(approval, link)
    ending = [_text(fit(decided(approval, None), CONTEXT))]
    if approval.decided_at is not None:
        ending += [_text(", "), _date(approval.decided_at)]
    became = {"type": "rich_text", "elements": [_rich(*ending)]}
    return [block, became, _context(approval.id, *([page] if page else []))]


def notice_blocks(approval: Approval, link: str | None, mentioned: Sequence[str] = ()) -> list[Block]:
    """Return the blocks that say that an approval waits, and where: without its arguments, and without buttons."""
    where = page_of(approval, link) or "See it on the command line: supervisor approvals"
    parts = (*_mentions(mentioned), _text(f"{fit(headline(approval), 500)}\n{where}"))
    return [
        {"type": "rich_text", "block_id": block_id(approval.id), "elements": [_rich(*parts)]},
        _context(approval.id),
    ]


def said_blocks(text: str, mark: str, by: str) -> list[Block]:
    """Return what an agent says, as harmless Markdown. `mark`: the id by which the message is found again; it is on the
    line with `by`, since Slack keeps no ids of blocks of Markdown."""
    return [{"type": "markdown", "text": text or " "}, {**_context(by), "block_id": mark}]


def plain_blocks(text: str, last: Block) -> list[Block]:
    """Return what an agent says, as plain text, followed by the `last` block."""
    return [*(_section(piece) for piece in pieces(text, SECTION)), last]


def reminder_id(approval: Approval, others: Sequence[Approval] = ()) -> str:
    """Return the id of the block by which the message of the last reminder of these approvals is found again."""
    assert approval.reminded_at is not None
    if others:
        named = "\n".join(f"{each.id} {each.reminded_at}" for each in (approval, *others))
        return f"reminders:{sha256(named.encode()).hexdigest()}"
    return f"reminder:{approval.id}:{approval.reminded_at.timestamp():.6f}"


def reminder_blocks(says: str, mark: str, mentioned: Sequence[str]) -> list[Block]:
    """Return the message that tells people again of what waits."""
    return [{"type": "rich_text", "block_id": mark, "elements": [_rich(*_mentions(mentioned), _text(says))]}]


def _mentions(people: Sequence[str]) -> list[Block]:
    """Return mentions, which notify people, and a space after each."""
    return [part for each in people for part in ({"type": "user", "user_id": each}, _text(" "))]


def mentions_text(people: Sequence[str]) -> str:
    """Return the mentions of people as Slack writes them in a text."""
    return "".join(f"<@{each}> " for each in people)


def card_text(approval: Approval) -> str:
    """Return the line for notifications, with <, > and & escaped, since Slack interprets them."""
    return inert(f"{path_text(approval.path)} asks: {summary(approval, 200)}")


def inert(text: str) -> str:
    """Return text with <, > and & escaped, so that Slack finds no links or mentions in it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def block_id(approval: str) -> str:
    return f"approval:{approval}"


def form_view(code: str, approval: Approval, place: dict[str, str], link: str | None = None) -> Block:
    """Return the modal that a press opens; Slack returns `place` with it. Raises InvalidInput for a press without a
    form. `link`: the address of the web inbox, which has the form that a modal cannot carry."""
    form = form_of(code, approval)
    fields = modal_fields(code, approval, fields=FIELDS, options=OPTIONS, room=FORM_TEXT)
    text: Block = {"type": "plain_text_input", "action_id": "text", "multiline": True, "max_length": FORM_TEXT}
    text |= {"initial_value": form.text} if form.text else {}
    only = {"type": "input", "block_id": "field", "label": _plain(form.label, 2000), "element": text}
    page = page_of(approval, link) if code != EXPLAIN and has_form(approval) else None
    return {
        "type": "modal",
        "callback_id": f"form.{code}",
        "private_metadata": msgspec.json.encode({"approval": approval.id, **place}).decode(),
        "title": _plain(form.title, TITLE),
        "submit": _plain(form.submit, TITLE),
        "close": _plain("Cancel", TITLE),
        "blocks": [
            _section(fit(summary(approval, 300), SECTION)),
            *(map(_input, fields) if fields else [{**only, "optional": not form.is_required}]),
            *([_context(f"To fill in fields instead: {page}")] if page and not fields else ()),
        ],
    }


def _input(field: ModalField) -> Block:
    """Return one field of a form."""
    options = [{"text": _plain(words, BUTTON), "value": value} for value, words in field.options]
    chosen = [option for option in options if option["value"] == field.text]
    match field.kind:
        case "choice":
            element: Block = {"type": "static_select", "options": options}
            element |= {"initial_option": chosen[0]} if chosen else {}
        case "date" if _DATE.fullmatch(field.text or "2026-11-23"):
            element = {"type": "datepicker", **({"initial_date": field.text} if field.text else {})}
        case _:
            element = {"type": "plain_text_input", "multiline": True, "max_length": FORM_TEXT}
            element |= {"initial_value": field.text} if field.text else {}
    return {
        "type": "input",
        "block_id": field.name,
        "label": _plain(field.label, 2000),
        "hint": _plain(field.hint, 2000),
        "optional": not field.is_required,
        "element": {**element, "action_id": "value"},
    }


def _that_fit(approval: Approval) -> tuple[list[Button], int]:
    """Return the buttons that fit, and the number of the others."""
    most, room = BUTTONS * ROWS, BUTTONS * ROWS * CONFIRM
    return fitting_buttons(
        approval, most=most, form=FORM_TEXT, each=CONFIRM, room=room, size=lambda button: length(button.grants)
    )


def _button(button: Button, approval: str) -> Block:
    element: Block = {
        "type": "button",
        "action_id": button.code,
        "value": approval,
        "text": _plain(button.label, BUTTON),
    }
    if button.tone:
        element["style"] = "primary" if button.tone == "yes" else "danger"
    if button.grants:
        element["confirm"] = {
            "title": _plain("A rule for later calls", 100),
            "text": _plain(button.grants, CONFIRM),
            "confirm": _plain("Allow", 30),
            "deny": _plain("Go back", 30),
        }
    return element


def _facts(facts: Sequence[DrawnFact]) -> Block:
    """Return the facts: commands and facts of several lines in boxes, and the others as lines."""
    elements: list[Block] = []
    for each in facts:
        label, fact = _text(f"{each.label}  ", bold=not each.fact.is_default), each.fact
        if fact.instant is not None:
            elements.append(_rich(label, _date(fact.instant), _text("\n")))
        elif "\n" in each.text or fact.kind == "command":
            elements.append(_rich(_text(each.label, bold=True)))
            elements.append({"type": "rich_text_preformatted", "elements": [_text(each.text or " ")]})
        else:
            elements.append(_rich(label, _text(f"{each.text}\n")))
    return {"type": "rich_text", "elements": elements}


def _rich(*elements: Block) -> Block:
    return {"type": "rich_text_section", "elements": list(elements)}


def _text(text: str, *, bold: bool = False) -> Block:
    return {"type": "text", "text": text, **({"style": {"bold": True}} if bold else {})}


def _date(instant: datetime) -> Block:
    """Return an instant, which Slack shows in the time zone of each reader."""
    return {
        "type": "date",
        "timestamp": int(instant.timestamp()),
        "format": "{date_short_pretty} {time}",
        "fallback": f"{instant.astimezone(UTC):%Y-%m-%d %H:%M} UTC",
    }


def _plain(text: str, limit: int) -> Block:
    return {
        "type": "plain_text",
        "text": fit(text, limit, remark=False) or " ",  # Slack refuses an empty one
        "emoji": False,
    }


def _header(text: str) -> Block:
    return {"type": "header", "text": _plain(text, HEADER)}


def _section(text: str) -> Block:
    return {"type": "section", "text": _plain(text, SECTION)}


def _context(*texts: str) -> Block:
    return {"type": "context", "elements": [_plain(text, CONTEXT) for text in texts]}
