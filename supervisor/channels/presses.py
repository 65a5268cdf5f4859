"""Buttons: what can be pressed for an approval or a question, and what pressing it decides.

A button lies in a message for days, on a platform that gives back nothing of it but a short code. So a code names a
place among what the store's approval offers (`options`, `choices`), never a pattern or a value of its own: what was
never offered cannot be pressed, whoever forges the code, and what is granted is what the journal says was offered.

Rules
- A press that needs words (`edit`, `explain`, `reply`) opens a form; the words come back with the same code.
- Nothing says yes to what was not seen: where a card does not show all of it, `unseen_buttons` are its buttons.
- `decision_of` is the only way from a code to a decision, and raises InvalidInput for whatever does not fit.
"""

from typing import Any, Final

import msgspec

from supervisor.channels.granting import HOW_LONG, grant_text
from supervisor.core.errors import InvalidInput
from supervisor.core.questions import is_yes_or_no, read_answer
from supervisor.core.values import Answer, Approval, Approve, Decision, Deny
from supervisor.core.visible import json_text, visible

APPROVE: Final = "approve"
"""Said rather than pressed: this call, once. A button names the place of an option behind a dot."""
EDIT: Final = "edit"
DENY: Final = "deny"
EXPLAIN: Final = "explain"
REPLY: Final = "reply"
_TOLD_APART: Final = 60
"""Characters of choices by which their buttons can be told apart; platforms cut the rest."""
FORMS: Final = (EDIT, EXPLAIN, REPLY)
"""Codes of presses that ask for words before anything is decided."""


class Button(msgspec.Struct, frozen=True, kw_only=True):
    """One button: its code, what stands on it, and what will be allowed by it beyond this call, if anything."""

    code: str
    label: str
    tone: str = ""
    """"yes" for the plainest way to go on, "no" for the way to refuse; otherwise neither."""
    grants: str = ""
    """The rule that pressing it makes, in words; "" if it decides this one alone."""


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """What a press asks for before it decides: one field of text."""

    title: str
    label: str
    submit: str
    text: str = ""
    is_required: bool = True


def buttons_of(approval: Approval) -> list[Button]:
    """Return the buttons of a pending approval or question, the plainest first."""
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
    return [
        *granting,
        Button(code=EDIT, label="Edit…"),
        Button(code=DENY, label="Deny", tone="no"),
        Button(code=EXPLAIN, label="Deny with a reason…"),
    ]


def unseen_buttons(buttons: list[Button]) -> list[Button]:
    """Return the buttons of a card that does not show all of what is asked."""
    return [button for button in buttons if not says_yes(button.code)]


def says_yes(code: str) -> bool:
    """Whether a button says yes to what is asked, by itself."""
    return code.partition(".")[0] in ("approve", "yes", "choose")


def _answers(approval: Approval) -> list[Button]:
    if is_yes_or_no(approval.schema):
        return [Button(code="yes", label="Yes"), Button(code="no", label="No")]
    if approval.choices is None:
        return [Button(code=REPLY, label="Answer…", tone="yes")]
    labels = [visible(choice).strip() or "(empty)" for choice in approval.choices]
    if len({label[:_TOLD_APART] for label in labels}) < len(labels):
        labels = [f"{number}. {label}" for number, label in enumerate(labels, 1)]
    return [Button(code=f"choose.{place}", label=label) for place, label in enumerate(labels)]


def form_of(code: str, approval: Approval) -> Form:
    """Return what a press asks for; raises InvalidInput for a code that asks for nothing."""
    match code:
        case "edit":
            text = json_text(approval.arguments, indent=2)
            return Form(title="Edit the arguments", label="Arguments, as JSON", submit="Approve once", text=text)
        case "explain" if approval.kind == "question":
            return Form(title="Do not answer", label="The agent is told why", submit="Send", is_required=False)
        case "explain":
            return Form(title="Deny with a reason", label="The agent is told so", submit="Deny", is_required=False)
        case "reply" if approval.kind == "question":
            label = "Your answer" if approval.schema is None else "Your answer, as JSON"
            return Form(title="Answer", label=label, submit="Answer")
        case _:
            raise InvalidInput("this button is none of this question's")


def decision_of(code: str, approval: Approval, by: str, text: str | None = None) -> Decision:
    """Return what a press decides; `text`: what was written into its form. Raises InvalidInput if it decides nothing:
    an unknown code, a place that nothing was offered at, text that is not what the form asks for."""
    verb, _, place = code.partition(".")
    match verb:
        case "approve" if code == APPROVE and any(option.scope == "once" for option in approval.options):
            return Approve(by=by)
        case "approve":
            option = approval.options[_place(place, len(approval.options))]
            return Approve(by=by, scope=option.scope, pattern=option.pattern)
        case "choose":
            choices = approval.choices or ()
            return Answer(by=by, value=choices[_place(place, len(choices))])
        case "yes" | "no" if is_yes_or_no(approval.schema):
            return Answer(by=by, value=verb == "yes")
        case "reply" if text is not None and approval.kind == "question":
            return Answer(by=by, value=read_answer(approval, text))
        case "edit" if text is not None and approval.kind == "call":
            return Approve(by=by, arguments=_arguments(text))
        case "deny":
            return Deny(by=by)
        case "explain":
            return Deny(by=by, reason=(text or "").strip() or None)
        case _:
            raise InvalidInput("this button is none of this question's")


def _place(written: str, count: int) -> int:
    if not written.isascii() or not written.isdigit() or int(written[:9]) >= count:
        raise InvalidInput("what this button grants was not offered; look at the question again")
    return int(written)


def _arguments(text: str) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text.encode("utf-8", "surrogatepass"), type=dict[str, Any])
    except (msgspec.MsgspecError, RecursionError) as error:
        raise InvalidInput(f"write a JSON object with all arguments: {error}") from None
