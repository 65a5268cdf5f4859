"""An approval as a message of Telegram: a text, what its parts are, and buttons.

Theory: a message has no parse mode, so no mark in a text means anything. But Telegram still makes links of names,
commands and addresses that it finds in a text, except in code. So the texts of agents and tools are marked as code, by
their place in the message and not by signs that such a text could contain.

Rules
- This module keeps every limit of Telegram's. A text that does not fit is visibly cut, with a link to the approval's
  page, and a cut card has no button that says yes. Patterns are never cut: an option that cannot be shown whole gets no
  button. Ids are never cut.
- A button's data is its code and the approval's id, at most 64 bytes. Telegram returns nothing else.
- The last line of a card is the approval's id, marked as code; of a prompt, the code and the id. So a reply to it says
  what it is about, whichever process posted it. An agent's text cannot imitate such a line, since only the marks count.
- A card says no age, which would be wrong a minute later: the same approval gives the same message at any time.
- Pure.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final

from msgspec.structs import replace

from supervisor.channels.chat.filling import FILL, Fill
from supervisor.channels.chat.interview import Prompt
from supervisor.channels.chat.presses import EXPLAIN, FORMS, Button, fitting_buttons, form_of, unseen_buttons
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
from supervisor.channels.wording.lengths import DrawnFact, fit, fit_facts, length
from supervisor.core.approvals.facts import Fact
from supervisor.core.ids import APPROVAL_ID
from supervisor.core.text.visible import visible
from supervisor.core.values import Approval

TEXT: Final = 4096
ALERT: Final = 200
DATA_BYTES: Final = 64  # bytes
BODY_UNITS: Final = 2200
"""UTF-16 units of all facts in one card."""
GRANTS_UNITS: Final = 500
"""UTF-16 units of all rules that one card offers."""
HEADLINE: Final = 200
NAME: Final = 32
LABEL: Final = 64
ROW_UNITS: Final = 36
"""UTF-16 units of the labels of the buttons in one row, so that a phone shows them whole."""
BUTTONS: Final = 40
OFFERS: Final = 60
"""Buttons of one question of a form; of a longer choice, the person replies with one."""
ABOUT: Final = 800
SHOWN_UNITS: Final = 1200
"""UTF-16 units of what a field takes, and of the text that it has."""
ENTITIES: Final = 100

Message = dict[str, Any]
Mentioned = Sequence[tuple[str, str]]
"""(id, name) of each person whom a message mentions."""

_REFERENCE: Final = re.compile(rf"(?:({'|'.join(FORMS)}|{re.escape(FILL)}[0-9a-f]{{6}}) )?({APPROVAL_ID})")
_BYLINE: Final = re.compile(r".+ #([0-9]{1,18})")
_TRAPS: Final = re.compile(r"(?<!\w)[@#$]\w[\w@#$]*|(?<![\w/<>])/\w++(?:[@#$]\w++)*+(?![\w/<>])")
"""What Telegram would make a mention, a tag, or a command that a tap sends. Of doubtful letters all count."""
_NO_PREVIEW: Final = {"is_disabled": True}


class _Text:
    """A text whose parts are marked."""

    def __init__(self) -> None:
        self.text = ""
        self.entities: list[Message] = []

    def add(self, text: str, kind: str = "", **more: Any) -> "_Text":
        if kind and text:
            self.entities.append({"type": kind, "offset": length(self.text), "length": length(text), **more})
        self.text += text
        return self

    def message(self, rows: Sequence[Sequence[Message]] = ()) -> Message:
        return {
            "text": self.text,
            "entities": self.entities,
            "link_preview_options": _NO_PREVIEW,
            "reply_markup": {"inline_keyboard": rows},
        }


def card_message(
    approval: Approval, link: str | None = None, mentioned: Mentioned = (), *, is_open: bool = True
) -> Message:
    """Return the message of a pending approval. `link`: the address of the web inbox. `is_open`: with its buttons, and
    with what they grant."""
    facts, unseen = _fit(approval)
    buttons, missing = _that_fit(approval)
    if unseen:
        buttons = unseen_buttons(buttons)
    grants = [f"{button.label}: {button.grants}" for button in buttons if button.grants and is_open]
    text = _mentions(mentioned).add(_headline(approval), "code").add("\n")
    text.add("\n".join([fact_lines(facts), *grants]), "pre").add("\n")
    if approval.reminded_at is not None:
        text.add(f"{_reminded(approval.reminded_at)}\n")
    if lacks := remark(approval, unseen, missing, link):
        text.add(f"{lacks}\n")
    if not is_open:
        text.add("Its buttons follow, here or on another card.\n")
    text.add(approval.id, "code")
    return text.message(_rows(buttons, approval) if is_open else ())


def shown_facts(approval: Approval) -> list[Fact]:
    """Return the facts that a card shows whole."""
    return shown_whole(approval, _fit(approval)[0], LABEL) if length(headline(approval)) <= HEADLINE else []


def notice_message(approval: Approval, link: str | None, mentioned: Mentioned) -> Message:
    """Return the message that says that an approval waits, and where: without its arguments, and without buttons."""
    where = page_of(approval, link) or "See it on the command line: supervisor approvals"
    text = _mentions(mentioned).add(_headline(approval), "code").add(f"\n{where}\n")
    if approval.reminded_at is not None:
        text.add(f"{_reminded(approval.reminded_at)}\n")
    return text.add(approval.id, "code").message()


def retired_message(approval: Approval, now: datetime, link: str | None = None) -> Message:
    """Return the message of an approval that has ended: a card without buttons."""
    became = f"{summary(approval, 200)}\n{decided(approval, now)}"
    text = _Text().add(_headline(approval), "code").add("\n").add(fit(became, BODY_UNITS), "pre").add("\n")
    if (page := page_of(approval, link)) is not None:
        text.add(f"{page}\n")
    return text.add(approval.id, "code").message()


def reminder_message(says: str, card: int | None, mentioned: Mentioned, id_: str = "") -> Message:
    """Return the message that tells people again of what waits: a reply to a card, by the id of its message, if any.
    `id_`: of the approval, if it is one."""
    text = _mentions(mentioned).add(fit(says, BODY_UNITS), "code" if id_ else "pre")
    if id_:
        text.add("\n").add(id_, "code")
    return text.message() if card is None else _reply(text, card)


def prompt_message(
    code: str, approval: Approval, message: str, person: tuple[str, str], link: str | None = None
) -> Message:
    """Return the message that asks a person for the text that a press needs, in a reply. `link`: of the web inbox,
    where the approval has fields. Raises InvalidInput for a press without a form."""
    form = form_of(code, approval)
    optional = "" if form.is_required else ", or with a dot to give none"
    text = _mentions([person]).add(f"{form.title}. Reply to this message with: {form.label}{optional}.\n")
    if form.text:
        text.add(form.text, "pre").add("\n")
    if (page := page_of(approval, link)) is not None and code != EXPLAIN:
        text.add(f"Or fill it in here: {page}\n")
    prompt = _reply(text.add(f"{code} {approval.id}", "code"), int(message))
    return prompt | {"reply_markup": {"force_reply": True, "selective": True}}


def field_message(
    prompt: Prompt, part: tuple[int, int], token: str, approval: Approval, person: tuple[str, str]
) -> Message:
    """Return the question for one field of a form. `part`: its number, and that of all. `token`: of the question."""
    text = _mentions([person]).add(f"{part[0]} of {max(part)}: ")
    text.add(fit(prompt.label or "your answer", HEADLINE, remark=False), "code").add("\n")
    text.add(fit(prompt.about, ABOUT), "pre").add("\n")
    offers = prompt.offers if len(prompt.offers) <= OFFERS else ()
    marks = ["✓ " if offer == prompt.text else "" for offer in offers]
    buttons = [(str(number), f"{mark}{offer}") for number, (mark, offer) in enumerate(zip(marks, offers, strict=True))]
    if prompt.text and not offers:
        text.add("It is now:\n").add(fit(visible(prompt.text, kind="words", lines=True), SHOWN_UNITS), "pre").add("\n")
        buttons.append((Fill.KEEP, "Keep it"))
    if prompt.may_skip:
        buttons.append((Fill.SKIP, "Leave it out"))
    if prompt.takes_empty and not offers:
        buttons.append((Fill.EMPTY, "Empty text"))
    text.add("Press a button.\n" if offers else "Reply to this message with it.\n")
    buttons += [(Fill.BACK, "Back")] * (part[0] > 1) + [(Fill.JSON, "As JSON"), (Fill.LEAVE, "Leave the form")]
    return _form_message(text, buttons, token, approval)


def filled_message(
    shown: str, problems: Sequence[str], token: str, code: str, approval: Approval, person: tuple[str, str]
) -> Message:
    """Return the message that shows what was filled in, or its problems, with the button that decides."""
    buttons = [(Fill.BACK, "Back"), (Fill.JSON, "As JSON"), (Fill.LEAVE, "Leave the form")]
    text = _mentions([person])
    if problems:
        text.add("It does not fit as a whole. Go back and change it:\n").add(
            fit("\n".join(problems), BODY_UNITS), "pre"
        )
    elif length(shown) > BODY_UNITS:
        text.add("It is too long to be shown here, so it cannot be sent here: give it as JSON.")
    else:
        text.add("Nothing is decided yet. You filled in:\n").add(shown, "pre")
        buttons.insert(0, (Fill.SEND, form_of(code, approval).submit))
    return _form_message(text.add("\n"), buttons, token, approval)


def left_message(text: str) -> Message:
    """Return what takes the place of a question that needs no answer any more. The text was made visible before."""
    return _Text().add(fit(text, BODY_UNITS), "pre").message()


def fits_data(approval: Approval) -> bool:
    """Whether a button can carry an answer to a question about an approval."""
    return len(f"{FILL}{'f' * 6}.{'9' * 5}:{approval.id}") <= DATA_BYTES


def _form_message(text: _Text, buttons: Sequence[tuple[str, str]], token: str, approval: Approval) -> Message:
    rows: list[list[Message]] = []
    room = 0
    for action, words in buttons:
        label = fit(words, LABEL, remark=False) or "(empty)"
        if length(label) > room or action == Fill.BACK:
            rows.append([])
            room = ROW_UNITS
        room -= length(label)
        rows[-1].append({"text": label, "callback_data": f"{FILL}{token}.{action}:{approval.id}"})
    return text.add(f"{FILL}{token} {approval.id}", "code").message(rows)


def said_message(text: str, by: str = "") -> Message:
    """Return what an agent says, as it was written. `by`: a last line that says which session this belongs to."""
    said = _Text()
    text = text if text.strip() else "(an empty message)"
    traps = list(_TRAPS.finditer(text))
    if len(traps) >= ENTITIES:
        said.add(text, "pre")
    else:
        at = 0
        for trap in traps:
            said.add(text[at : trap.start()]).add(trap[0], "code")
            at = trap.end()
        said.add(text[at:])
    if by:
        said.add("\n").add(by, "code")
    made = said.message()
    del made["reply_markup"]
    return made


def told_message(text: str, message: int) -> Message:
    """Return the answer to a person's message. The text was made visible before."""
    return _reply(_Text().add(fit(text, TEXT - 100), "pre"), message)


def read_data(data: str) -> tuple[str, str] | None:
    """Return the code and the approval's id of a button; None for data that is not ours."""
    code, _, approval = data.partition(":")
    return (code, approval) if code and re.fullmatch(APPROVAL_ID, approval) else None


def marked_end(text: str, kind: str, offset: int, units: int) -> str:
    """Return what the last mark of a message of ours covers, if it is code and ends the message; otherwise ""."""
    raw = text.encode("utf-16-le", "surrogatepass")
    is_end = kind == "code" and 2 * (offset + units) >= len(raw)
    return raw[2 * offset :].decode("utf-16-le", "replace") if is_end else ""


def read_reference(end: str) -> tuple[str, str] | None:
    """Return the code, "" on a card, and the approval's id at the end of a message; None without them."""
    found = _REFERENCE.fullmatch(end)
    return None if found is None else (found[1] or "", found[2])


def byline(by: str, began: int) -> str:
    """Return the line that says which session a message belongs to. `began`: the message that began it."""
    return f"{visible(by)} #{began}"


def read_byline(end: str) -> int | None:
    """Return the message that began the session of a message; None without such a line."""
    found = _BYLINE.fullmatch(end)
    return None if found is None else int(found[1])


def _fit(approval: Approval) -> tuple[tuple[DrawnFact, ...], int]:
    """Return the facts as the card shows them, and the number of characters of the request that are missing."""
    card = make_card(approval, approval.created_at)
    shown = [
        replace(fact, text=_instant(fact.instant)) if fact.instant is not None else fact
        for fact in with_choices(card.facts, approval, LABEL)
        if not (fact.is_id and fact.name == "approval")  # it is the last line of the message
    ]
    facts, unseen = fit_facts(draw(shown), BODY_UNITS)
    return facts, unseen + max(0, length(card.headline) - HEADLINE)


def _headline(approval: Approval) -> str:
    return fit(headline(approval), HEADLINE, remark=False)


def _reminded(at: datetime) -> str:
    return f"People were reminded of it: {_instant(at)}"


def _instant(at: datetime) -> str:
    """Return an instant that stays true on a card that stands for days."""
    return f"{at.astimezone():%Y-%m-%d %H:%M:%S %Z}"


def _that_fit(approval: Approval) -> tuple[list[Button], int]:
    """Return the buttons that fit, and the number of the others."""

    def size(button: Button) -> int:
        return length(f"{button.label}: {button.grants}\n")

    room = GRANTS_UNITS
    found, more = fitting_buttons(approval, most=BUTTONS, form=TEXT - 500, each=room, room=room, size=size)
    fitting = [button for button in found if len(_data(button, approval)) <= DATA_BYTES]
    return fitting, more + len(found) - len(fitting)


def _data(button: Button, approval: Approval) -> bytes:
    return f"{button.code}:{approval.id}".encode()


def _rows(buttons: list[Button], approval: Approval) -> list[list[Message]]:
    rows: list[list[Message]] = []
    room = 0
    for button in buttons:
        label = fit(button.label, LABEL, remark=False) or "(empty)"
        if length(label) > room:
            rows.append([])
            room = ROW_UNITS
        room -= length(label)
        style = {"style": _STYLES[button.tone]} if button.tone else {}
        rows[-1].append({"text": label, "callback_data": _data(button, approval).decode(), **style})
    return rows


_STYLES: Final = {"yes": "success", "no": "danger"}


def _mentions(people: Mentioned) -> _Text:
    text = _Text()
    for id_, name in people:
        shown = fit(visible(name), NAME, remark=False)
        text.add(shown, "text_mention", user={"id": int(id_), "is_bot": False, "first_name": shown}).add(" ")
    return text.add("\n") if people else text


def _reply(text: _Text, message: int) -> Message:
    made = text.message() | {"reply_parameters": {"message_id": message, "allow_sending_without_reply": True}}
    del made["reply_markup"]
    return made
