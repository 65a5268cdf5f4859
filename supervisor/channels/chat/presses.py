"""Buttons: which buttons an approval or a question has, and what each decides.

A button stays in a message for days, and the platform returns only a short code when it is pressed. So a code is the
index of an option, an allowance or a choice of the approval in the store, never a pattern or a value. A forged code can
therefore grant only what the journal says was offered.

Rules
- A press that needs a text (`edit`, `explain`, `reply`) opens a form. The text comes back with the same code.
- A person says yes only to what they have seen: a card that does not show the whole request has `unseen_buttons`.
- `approve` alone is this call, once, as a slash command says it; a dot and the index of an option follow on a button.
  `allow` is this call and later ones until an end, with the index of an allowance.
- `decision_of` is the only way from a code to a decision. It raises InvalidInput for a code that does not fit.
"""

from collections.abc import Callable
from typing import Any, Final

import msgspec

from supervisor.channels.wording.granting import (
    ALLOW,
    APPROVE as APPROVE,
    HOW_LONG,
    allowance_label,
    approve_for,
    grant_text,
)
from supervisor.channels.wording.lengths import length
from supervisor.core.approvals.chat_words import read_word
from supervisor.core.approvals.questions import is_yes_or_no, read_answer
from supervisor.core.encoding import read_exact
from supervisor.core.errors import InvalidInput
from supervisor.core.text.visible import json_text, visible
from supervisor.core.values import Answer, Approval, Approve, Decision, Deny, Option

EDIT: Final = "edit"
DENY: Final = "deny"
EXPLAIN: Final = "explain"
REPLY: Final = "reply"
_TOLD_APART_CHARACTERS: Final = 60
"""Characters of a choice that a button shows on every platform. Choices that are equal in them are numbered."""
FORMS: Final = (EDIT, EXPLAIN, REPLY)
"""Codes of presses that ask for a text before they decide."""


class Button(msgspec.Struct, frozen=True, kw_only=True):
    """One button: its code, its label, and the rule that it grants, if any."""

    code: str
    label: str
    tone: str = ""
    """"yes" for the simplest approval, "no" for a refusal, "" for the other buttons."""
    grants: str = ""
    """The rule that a press makes, as text; "" if it decides only this approval."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """A form with one field of text, which a press opens before it decides."""

    title: str
    label: str
    submit: str
    text: str = ""
    is_required: bool = True


def buttons_of(approval: Approval) -> list[Button]:
    """Return the buttons of a pending approval or question, the simplest first."""
    if approval.kind == "question":
        return [*_answers(approval), Button(code=EXPLAIN, label="Do not answer…", tone="no")]
    granting = [
        Button(
            code=f"approve.{place}",
            label=f"Approve {HOW_LONG[option.scope]}",
            tone="yes" if option.scope == "once" else "",
            grants=grant_text(approval, option),
        )
        for place, option in enumerate(approval.options)
    ]
    ending = [
        Button(code=f"{ALLOW}.{place}", label=allowance_label(each), grants=grant_text(approval, option, each))
        for place, each in enumerate(approval.allowances)
        for option in [Option("session", each.pattern)]
    ]
    return [
        *granting[:1],
        *ending,
        *granting[1:],
        *([Button(code=EDIT, label="Edit…")] if approval.editable else ()),
        Button(code=DENY, label="Deny", tone="no"),
        Button(code=EXPLAIN, label="Deny with a reason…"),
    ]


def unseen_buttons(buttons: list[Button]) -> list[Button]:
    """Return the buttons of a card that does not show the whole request."""
    return [button for button in buttons if not says_yes(button.code)]


def fitting_buttons(
    approval: Approval, *, most: int, form: int, each: int, room: int, size: Callable[[Button], int]
) -> tuple[list[Button], int]:
    """Return the buttons that a card can have, and the number of the others: with more than `most` there is one for a
    typed answer, and no rule is cut. `form`: UTF-16 units of a form's text; `each` and `room`: of the rule of one
    button, and of those of all; `size`: those that the rule of a button takes."""
    buttons = buttons_of(approval)
    kept = buttons if len(buttons) <= most else [Button(code=REPLY, label="Answer…", tone="yes"), buttons[-1]]
    fitting: list[Button] = []
    for button in kept:
        shown = size(button) if button.grants else 0
        if shown <= min(each, room) and (button.code != EDIT or length(form_of(EDIT, approval).text) <= form):
            room -= shown
            fitting.append(button)
    return fitting, len(buttons) - len(fitting)


def says_yes(code: str) -> bool:
    """Whether a press of this button approves or answers without a form."""
    return code.partition(".")[0] in ("approve", ALLOW, "yes", "choose")


def _answers(approval: Approval) -> list[Button]:
    if is_yes_or_no(approval.schema):
        return [Button(code="yes", label="Yes"), Button(code="no", label="No")]
    if approval.choices is None:
        return [Button(code=REPLY, label="Answer…", tone="yes")]
    labels = [visible(choice, kind="prose").strip() or "(empty)" for choice in approval.choices]
    if len({label[:_TOLD_APART_CHARACTERS] for label in labels}) < len(labels):
        labels = [f"{number}. {label}" for number, label in enumerate(labels, 1)]
    return [Button(code=f"choose.{place}", label=label) for place, label in enumerate(labels)]


def form_of(code: str, approval: Approval) -> Form:
    """Return the form that a press opens; raises InvalidInput for a code without a form."""
    match code:
        case "edit" if approval.editable:
            text = json_text(approval.arguments, indent=2)
            return Form(title="Edit the arguments", label="Arguments, as JSON", submit="Approve once", text=text)
        case "explain" if approval.kind == "question":
            return Form(title="Do not answer", label="Reason, for the agent", submit="Send", is_required=False)
        case "explain":
            return Form(title="Deny with a reason", label="Reason, for the agent", submit="Deny", is_required=False)
        case "reply" if approval.kind == "question":
            label = "Your answer" if approval.schema is None else "Your answer, as JSON"
            return Form(title="Answer", label=label, submit="Answer")
        case _:
            raise InvalidInput("this approval has no such button; look at it again")


def decision_of(code: str, approval: Approval, by: str, text: str | None = None) -> Decision:
    """Return the decision of a press; `text`: what the person wrote into its form. Raises InvalidInput for an unknown
    code, an index that was not offered, and a text that does not fit the form."""
    verb, _, place = code.partition(".")
    match verb:
        case "approve" if code == APPROVE and any(option.scope == "once" for option in approval.options):
            return Approve(by=by)
        case "approve":
            option = approval.options[_place(place, len(approval.options))]
            return Approve(by=by, scope=option.scope, pattern=option.pattern)
        case "allow":
            return approve_for(approval.allowances[_place(place, len(approval.allowances))], by)
        case "choose":
            choices = approval.choices or ()
            return Answer(by=by, value=choices[_place(place, len(choices))])
        case "yes" | "no" if is_yes_or_no(approval.schema):
            return Answer(by=by, value=verb == "yes")
        case "reply" if text is not None and approval.kind == "question":
            return Answer(by=by, value=read_answer(approval, text))
        case "edit" if text is not None and approval.editable:
            return Approve(by=by, arguments=_arguments(text))
        case "deny":
            return Deny(by=by)
        case "explain":
            return Deny(by=by, reason=(text or "").strip() or None)
        case _:
            raise InvalidInput("this approval has no such button; look at it again")


def code_of_reply(text: str, approval: Approval) -> tuple[str, str | None]:
    """Return the code that a reply to a card means, "" if it means none, and the text that goes with it: a chat word
    without an id, or the answer to a question."""
    word = read_word(text)
    is_word = word is not None and word.approval is None and not word.all
    if approval.kind == "question" and not (is_word and is_yes_or_no(approval.schema)):
        return REPLY, text
    if word is None or not is_word:
        return "", None
    if approval.kind == "question":
        return ("yes" if word.is_yes else "no"), None
    return (APPROVE if word.is_yes else DENY), None


def _place(written: str, count: int) -> int:
    if not written.isascii() or not written.isdigit() or int(written[:9]) >= count:
        raise InvalidInput("this button was not offered for this approval; look at it again")
    return int(written)


def _arguments(text: str) -> dict[str, Any]:
    try:
        found = read_exact(text, "it")
    except InvalidInput as error:
        raise InvalidInput(f"write a JSON object with all arguments: {error}") from None
    if not isinstance(found, dict):
        raise InvalidInput("write a JSON object with all arguments: it is none")
    return found
