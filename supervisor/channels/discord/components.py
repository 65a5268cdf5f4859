"""An approval as a Discord message: an embed, rows of buttons, and the forms (modals).

Rules
- What agents and tools wrote stands in code blocks, out of which nothing can break: Discord interprets marks, links and
  mentions everywhere else. Mentions are switched off for the whole message as well.
- Every limit of Discord's is held here, before anything is sent. What does not fit is cut visibly, with a link to the
  approval's own page, and a card that is cut has no button that says yes. Ids and patterns are never cut: what could
  not be shown whole is not offered.
- A button's id is the press and the approval, 100 characters at most: that is all that comes back.
- Pure: `now` is an argument.
"""

from datetime import datetime
from typing import Any, Final

from supervisor.channels.cards import decided, headline, make_card, page_of, remark, summary, with_choices
from supervisor.channels.lengths import Facts, fit, fit_facts, length
from supervisor.channels.presses import EDIT, REPLY, Button, buttons_of, form_of, unseen_buttons
from supervisor.core.values import Approval

TITLE: Final = 256
DESCRIPTION: Final = 4096
FOOTER: Final = 2048
ALL_FACTS: Final = DESCRIPTION - 600
LABEL: Final = 80
CUSTOM_ID: Final = 100
IN_A_ROW: Final = 5
ROWS: Final = 5
MODAL_TITLE: Final = 45
MODAL_LABEL: Final = 45
MODAL_TEXT: Final = 4000
BODY: Final = 2800
"""UTF-16 units of facts in one card, as they stand there."""
FIELD: Final = 1024
GRANTS: Final = 2000
"""UTF-16 units of all rules that are offered in one card: an embed may have 6,000 in all."""

_ROW, _BUTTON, _TEXT_INPUT = 1, 2, 4
_STYLES: Final = {"yes": 3, "no": 4, "": 2}
_JOINER: Final = "\u200d"
_WAITING, _YES, _NO = 0xE0A000, 0x2E8B57, 0x808080

Message = dict[str, Any]


def card_message(approval: Approval, now: datetime, link: str | None = None) -> Message:
    """Return what to post for a pending approval. `link`: where the web inbox is."""
    card = make_card(approval, now)
    facts, unseen = _fit(approval, now)
    buttons, missing = _that_fit(approval)
    if unseen:
        buttons = unseen_buttons(buttons)
    lacks = remark(approval, unseen, missing, link)
    embed = {
        "title": fit(_inert(card.headline), TITLE, remark=False),
        "description": code_block(_lines(facts), ALL_FACTS) + (f"\n{lacks}" if lacks else ""),
        "color": _WAITING,
        "footer": {"text": approval.id},
        "fields": [
            {"name": fit(_inert(button.label), 250, remark=False), "value": code_block(button.grants, FIELD)}
            for button in buttons
            if button.grants
        ],
    }
    return _message(embed, [_row(buttons[at : at + IN_A_ROW], approval) for at in range(0, len(buttons), IN_A_ROW)])


def shows_whole(approval: Approval) -> bool:
    """Whether a card of it shows all of what is asked."""
    return not _fit(approval, approval.created_at)[1]


def _fit(approval: Approval, now: datetime) -> tuple[Facts, int]:
    """Return the facts as they stand on the card, and how many characters of what is asked are not there."""
    card = make_card(approval, now)
    shown = with_choices(card.facts, approval, LABEL)
    facts, unseen = fit_facts(tuple((_unended(label), _behind_gutter(text)) for label, text in shown), BODY)
    unseen += max(0, length(_inert(card.headline)) - TITLE)
    return facts, unseen + max(0, length(_lines(facts)) - (ALL_FACTS - 8))


def retired_message(approval: Approval, now: datetime, link: str | None = None) -> Message:
    """Return what stands there when nobody needs to decide any more: nothing on it can be pressed."""
    page = page_of(approval, link)
    became = code_block(f"{summary(approval, 200)}\n{decided(approval, now)}", ALL_FACTS)
    embed = {
        "title": fit(_inert(headline(approval)), TITLE, remark=False),
        "description": f"{became}\n{page}" if page else became,
        "color": _YES if approval.status in ("approved", "answered") else _NO,
        "footer": {"text": approval.id},
    }
    return _message(embed, [])


def form_modal(code: str, approval: Approval) -> Message:
    """Return the modal that a press opens. Raises InvalidInput for other presses."""
    form = form_of(code, approval)
    field = {
        "type": _TEXT_INPUT,
        "custom_id": "text",
        "style": 2,
        "label": fit(form.label, MODAL_LABEL, remark=False),
        "required": form.is_required,
        "max_length": MODAL_TEXT,
        **({"value": form.text} if form.text else {}),
    }
    return {
        "custom_id": custom_id(code, approval.id),
        "title": fit(form.title, MODAL_TITLE, remark=False),
        "components": [{"type": _ROW, "components": [field]}],
    }


def custom_id(code: str, approval: str) -> str:
    """Return what a button gives back."""
    return f"{code}:{approval}"


def read_custom_id(text: str) -> tuple[str, str] | None:
    """Return press and approval; None for what is no button of ours."""
    code, _, approval = text.partition(":")
    return (code, approval) if code and approval else None


def _that_fit(approval: Approval) -> tuple[list[Button], int]:
    """Return what can be offered here, and how many buttons cannot."""
    buttons = buttons_of(approval)
    if len(buttons) > IN_A_ROW * ROWS:
        return [Button(code=REPLY, label="Answer…", tone="yes"), buttons[-1]], len(buttons)
    fitting: list[Button] = []
    room = GRANTS
    for button in buttons:
        shown = length(code_block(button.grants, 10**9)) if button.grants else 0
        if shown <= min(room, FIELD) and _form_fits(button, approval):
            room -= shown
            fitting.append(button)
    return fitting, len(buttons) - len(fitting)


def _form_fits(button: Button, approval: Approval) -> bool:
    return button.code != EDIT or length(form_of(EDIT, approval).text) <= MODAL_TEXT


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


def _behind_gutter(text: str) -> str:
    """Return a fact's text; several lines stand behind a gutter, so that they cannot imitate other facts."""
    inert = _unended(text)
    return inert if "\n" not in inert else "\n".join(f"│ {line}" for line in inert.split("\n"))


def _lines(facts: Facts) -> str:
    return "\n".join(f"{label}\n{text}" if "\n" in text else f"{label:<9} {text}" for label, text in facts)


def code_block(text: str, limit: int) -> str:
    """Return a code block of at most `limit`."""
    return f"```\n{fit(_unended(text), limit - 8)}\n```"


def _unended(text: str) -> str:
    """Return text without what could end a code block: runs of backticks are broken by what nobody sees."""
    return text.replace("``", f"`{_JOINER}`{_JOINER}")


def _inert(text: str) -> str:
    """Return text in which Discord finds no marks: each is escaped."""
    return "".join("\\" + char if char in "\\*_~`|>#[]()@<:-" else char for char in text)


def _message(embed: Message, rows: list[Message]) -> Message:
    return {"embeds": [embed], "components": rows, "allowed_mentions": {"parse": []}}
