"""An approval as a Discord message: an embed, rows of buttons, and the forms (modals).

Rules
- Texts of agents and tools appear only in code blocks, which such a text cannot end: everywhere else Discord interprets
  marks, links and mentions. A message mentions only the people that
  it names in `allowed_mentions`.
- This module keeps every limit of Discord's. A text that does not fit is visibly cut, with a link to the approval's
  page, and a cut card has no button that says yes. Ids and patterns are never cut: an option that cannot be shown whole
  gets no button.
- A button's id is its code and the approval's id, at most 100 characters. Discord returns nothing else.
- Pure: `now` is an argument.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from supervisor.channels.chat.modal_fields import ModalField, modal_fields
from supervisor.channels.chat.presses import EXPLAIN, Button, fitting_buttons, form_of, unseen_buttons
from supervisor.channels.wording.cards import (
    decided,
    draw,
    fact_lines,
    headline,
    make_card,
    page_of,
    remark,
    shown_whole,
    summary,
    with_choices,
)
from supervisor.channels.wording.form_words import has_form
from supervisor.channels.wording.lengths import DrawnFact, fit, fit_facts, length
from supervisor.core.approvals.facts import Fact
from supervisor.core.values import Approval

CONTENT: Final = 2000
TITLE: Final = 256
DESCRIPTION: Final = 4096
ALL_FACTS: Final = DESCRIPTION - 600
LABEL: Final = 80
IN_A_ROW: Final = 5
ROWS: Final = 5
MODAL_TITLE: Final = 45
MODAL_LABEL: Final = 45
MODAL_TEXT: Final = 4000
MODAL_HINT: Final = 100
FIELDS: Final = 5
OPTIONS: Final = 25
BODY_UNITS: Final = 2800
"""UTF-16 units of all facts in one card."""
FIELD: Final = 1024
GRANTS_UNITS: Final = 2000
"""UTF-16 units of all rules that one card offers: an embed may have 6,000 in all."""

_ROW, _BUTTON, _SELECT, _TEXT_INPUT, _LABEL = 1, 2, 3, 4, 18
_STYLES: Final = {"yes": 3, "no": 4, "": 2}
_JOINER: Final = "\u200d"
_WAITING, _YES, _NO = 0xE0A000, 0x2E8B57, 0x808080

Message = dict[str, Any]


def card_message(approval: Approval, now: datetime, link: str | None = None, mentioned: Sequence[str] = ()) -> Message:
    """Return the message of a pending approval. `link`: the address of the web inbox; `mentioned`: ids of people."""
    card = make_card(approval, now)
    facts, unseen = _fit(approval, now)
    buttons, missing = _that_fit(approval)
    if unseen:
        buttons = unseen_buttons(buttons)
    lacks = remark(approval, unseen, missing, link)
    embed = {
        "title": fit(_inert(card.headline), TITLE, remark=False),
        "description": code_block(fact_lines(facts), ALL_FACTS) + _dates(card.facts) + (f"\n{lacks}" if lacks else ""),
        "color": _WAITING,
        "footer": {"text": approval.id},
        "fields": [
            {"name": fit(_inert(button.label), 250, remark=False), "value": code_block(button.grants, FIELD)}
            for button in buttons
            if button.grants
        ],
    }
    rows = [_row(buttons[at : at + IN_A_ROW], approval) for at in range(0, len(buttons), IN_A_ROW)]
    return _message(embed, rows, mentioned)


def notice_message(approval: Approval, link: str | None, mentioned: Sequence[str] = ()) -> Message:
    """Return the message that says that an approval waits, and where: without its arguments, and without buttons."""
    embed = {
        "title": fit(_inert(headline(approval)), TITLE, remark=False),
        "description": page_of(approval, link) or "See it on the command line: supervisor approvals",
        "color": _WAITING,
        "footer": {"text": approval.id},
    }
    return _message(embed, [], mentioned)


def reminder_message(says: str, card: str, mentioned: Sequence[str]) -> Message:
    """Return the message that tells people again of what waits: a reply to a card, by the id of its message, if any."""
    replies = {"message_reference": {"message_id": card, "fail_if_not_exists": False}} if card else {}
    text = code_block(says, CONTENT - 30 * len(mentioned))
    return {"content": _mentions(mentioned) + text, "allowed_mentions": _allowed(mentioned), **replies}


def _allowed(people: Sequence[str]) -> Message:
    """Return whom Discord notifies: these people, and no other ones that a text may name."""
    return {"parse": [], "users": list(people)} if people else {"parse": []}


def _mentions(people: Sequence[str]) -> str:
    return "".join(f"<@{each}> " for each in people)


def shown_facts(approval: Approval) -> list[Fact]:
    """Return the facts that a card shows whole."""
    facts, _ = _fit(approval, approval.created_at)
    is_named = length(_inert(headline(approval))) <= TITLE
    return shown_whole(approval, facts, LABEL) if is_named and not _overflow(facts) else []


def _fit(approval: Approval, now: datetime) -> tuple[tuple[DrawnFact, ...], int]:
    """Return the facts as the card shows them, and the number of characters of the request that are missing."""
    card = make_card(approval, now)
    shown = draw(fact for fact in with_choices(card.facts, approval, LABEL) if fact.instant is None)
    inert = tuple(replace(each, label=_unended(each.label), text=_unended(each.text)) for each in shown)
    facts, unseen = fit_facts(inert, BODY_UNITS)
    return facts, unseen + max(0, length(_inert(card.headline)) - TITLE) + _overflow(facts)


def _overflow(facts: Sequence[DrawnFact]) -> int:
    """Return how much longer the lines of the facts are than their block may be."""
    return max(0, length(fact_lines(facts)) - (ALL_FACTS - 8))


def _dates(facts: Sequence[Fact]) -> str:
    """Return the instants of a card, which Discord shows in the time zone of each reader."""
    found = [(fact.label, int(fact.instant.timestamp())) for fact in facts if fact.instant is not None]
    return "\n" + ", ".join(f"{label} <t:{at}:f> (<t:{at}:R>)" for label, at in found)


def retired_message(approval: Approval, link: str | None = None) -> Message:
    """Return the message of an approval that has ended: a card without buttons."""
    page = page_of(approval, link)
    became = code_block(f"{summary(approval, 200)}\n{decided(approval, None)}", ALL_FACTS)
    embed = {
        "title": fit(_inert(headline(approval)), TITLE, remark=False),
        "description": f"{became}\n{page}" if page else became,
        "color": _YES if approval.status in ("approved", "answered") else _NO,
        "footer": {"text": approval.id},
    }
    if approval.decided_at is not None:
        embed["timestamp"] = approval.decided_at.isoformat()
    return _message(embed, [])


def form_modal(code: str, approval: Approval, link: str | None = None) -> Message:
    """Return the modal that a press opens. Raises InvalidInput for a press without a form. `link`: the address of the
    web inbox, which has the form that a modal cannot carry."""
    form = form_of(code, approval)
    if fields := modal_fields(code, approval, fields=FIELDS, options=OPTIONS, room=MODAL_TEXT):
        title = fit(form.title, MODAL_TITLE, remark=False)
        return {"custom_id": custom_id(code, approval.id), "title": title, "components": [*map(_labelled, fields)]}
    title = fit(form.title, MODAL_TITLE, remark=False)
    label = fit(form.label, MODAL_LABEL, remark=False)
    field = {
        "type": _TEXT_INPUT,
        "custom_id": "text",
        "style": 2,
        "required": form.is_required,
        "max_length": MODAL_TEXT,
        **({"value": form.text} if form.text else {}),
    }
    page = page_of(approval, link) if code != EXPLAIN and has_form(approval) else None
    row = {"type": _ROW, "components": [{**field, "label": label}]}
    if page and length(hint := f"Or fill in fields: {page}") <= MODAL_HINT:
        row = {"type": _LABEL, "label": label, "description": hint, "component": field}
    return {"custom_id": custom_id(code, approval.id), "title": title, "components": [row]}


def _labelled(field: ModalField) -> Message:
    """Return one field of a form."""
    control: Message = {"custom_id": field.name, "required": field.is_required}
    if field.kind == "choice":
        options = [{"label": words, "value": value, "default": value == field.text} for value, words in field.options]
        control |= {"type": _SELECT, "options": options, "min_values": int(field.is_required), "max_values": 1}
    else:
        control |= {"type": _TEXT_INPUT, "style": 2, "max_length": MODAL_TEXT}
        control |= {"value": field.text} if field.text else {}
    label, hint = fit(field.label, MODAL_LABEL, remark=False), fit(field.hint, MODAL_HINT, remark=False)
    return {"type": _LABEL, "label": label, "description": hint, "component": control}


def custom_id(code: str, approval: str) -> str:
    """Return the id of a button, which Discord returns when it is pressed."""
    return f"{code}:{approval}"


def read_custom_id(text: str) -> tuple[str, str] | None:
    """Return the code and the approval's id of a button; None for a button that is not ours."""
    code, _, approval = text.partition(":")
    return (code, approval) if code and approval else None


def _that_fit(approval: Approval) -> tuple[list[Button], int]:
    """Return the buttons that fit, and the number of the others."""

    def size(button: Button) -> int:
        return length(code_block(button.grants, 10**9))

    most, room = IN_A_ROW * ROWS, GRANTS_UNITS
    return fitting_buttons(approval, most=most, form=MODAL_TEXT, each=FIELD, room=room, size=size)


def _row(buttons: list[Button], approval: Approval) -> Message:
    elements = [
        {
            "type": _BUTTON,
            "style": _STYLES[button.tone],
            "label": fit(button.label, LABEL, remark=False) or "(empty)",
            "custom_id": custom_id(button.code, approval.id),
        }
        for button in buttons
    ]
    return {"type": _ROW, "components": elements}


def code_block(text: str, limit: int) -> str:
    """Return a code block of at most `limit` UTF-16 units."""
    return f"```\n{fit(_unended(text), limit - 8)}\n```"


def _unended(text: str) -> str:
    """Return text that cannot end a code block: an invisible character breaks each run of backticks."""
    return text.replace("``", f"`{_JOINER}`{_JOINER}")


def _inert(text: str) -> str:
    """Return text with every mark of Discord's escaped."""
    return "".join("\\" + char if char in "\\*_~`|>#[]()@<:-" else char for char in text)


def _message(embed: Message, rows: list[Message], mentioned: Sequence[str] = ()) -> Message:
    return {
        "content": _mentions(mentioned),
        "embeds": [embed],
        "components": rows,
        "allowed_mentions": _allowed(mentioned),
    }
