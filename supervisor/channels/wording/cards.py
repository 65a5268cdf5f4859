"""An approval as text: every surface uses the same words.

A card answers a tired person's questions in this order: what would run, where, who asks, since when, and what each
choice does.

Rules
- Text of an agent or a tool passes through `visible` before it reaches a screen.
- Each line of a text of several lines begins with a gutter, so that arguments cannot imitate the lines of the card.
- Ids are shown whole. This module never cuts what would run; a surface with less room says how much is missing.
- Pure: `now` is an argument, and times are shown in its time zone.

The module is longer than 400 lines because one place words all that people read about an approval.
"""

import shlex
from collections.abc import Collection, Iterator
from datetime import datetime
from itertools import takewhile
from typing import Any, Final

import msgspec

from supervisor.channels.wording.form_words import fields_of, has_form, outline
from supervisor.channels.wording.granting import HOW_LONG, Grant, grants, where
from supervisor.channels.wording.lengths import Facts, length
from supervisor.core.approvals.chat_words import ChatResult
from supervisor.core.approvals.masking import mask
from supervisor.core.approvals.questions import is_yes_or_no
from supervisor.core.calls.folders import folder_of_call
from supervisor.core.encoding import from_json
from supervisor.core.errors import InvalidInput
from supervisor.core.text.visible import gathered, is_reordered, visible
from supervisor.core.values import Approval, DecisionResult, unchanged

GUTTER: Final = "│ "
NUMBERS: Final = "123456789"
"""Keys of a question's choices."""
ORDERED: Final = "in order"
"""Label of a fact that repeats the one before it in the order in which it was written, with the letters that are
written from right to left escaped."""
DEFAULT: Final = " (default)"
"""The end of the label of an argument that has its default value."""
PATH_SEPARATOR: Final = " > "


class Choice(msgspec.Struct, frozen=True):
    """A key, its word, and its effect."""

    key: str
    word: str
    effect: str


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """An approval, ready to be shown. Each text is safe for a screen. The text of a fact may have several lines."""

    approval: str
    headline: str
    facts: tuple[tuple[str, str], ...]
    choices: tuple[Choice, ...]
    command: str = ""
    """The label of the fact that is a command; "" without one."""
    wider: tuple[Grant, ...] = ()
    """What the person may allow for longer than once."""


def make_card(approval: Approval, now: datetime, *, edited: Any = None) -> Card:
    """Return the card of a pending approval; `edited`: the arguments that the person would approve instead."""
    if approval.kind == "question":
        return _question_card(approval, now)
    arguments = approval.arguments if edited is None else mask(edited, approval.secret)
    agent = visible(approval.path[-1])
    defaults = approval.defaults if edited is None else unchanged(approval.defaults, approval.arguments, arguments)
    facts = arguments_facts(without_place(arguments), approval.command, defaults)
    command = visible(approval.command or "")
    of_command = takewhile(lambda fact: fact[0] in (command, ORDERED, "run by"), facts)
    facts.insert(len(tuple(of_command)), ("where", place(approval, arguments)))
    if edited is not None:
        facts.append(("edited", "by you, just now; nothing is decided yet"))
    facts += origin(approval, now)
    wider = grants(approval, "session") if edited is None else ()  # what was edited was not offered (A8)
    runs = "runs it once, exactly as shown" if edited is None else "runs it once, with your arguments as shown"
    return Card(
        approval=approval.id,
        headline=headline(approval),
        facts=tuple(facts),
        command=command,
        wider=wider,
        choices=(
            Choice("a", "approve", runs),
            *((_LONGER,) if wider else ()),
            *((_EDIT,) if approval.editable else ()),
            Choice("d", "deny", f"nothing runs; {agent} is told so, with your reason, and goes on"),
        ),
    )


def asked_facts(approval: Approval) -> list[tuple[str, str]]:
    """Return (label, text) of each fact that is asked: the arguments of a call; the text and the possible answers of a
    question."""
    if approval.kind == "call":
        return arguments_facts(approval.arguments, approval.command, approval.defaults)
    facts = [("question", _text(approval.question or ""))]
    if approval.choices is not None:
        facts.append(("choices", "\n".join(quoted(choice) for choice in approval.choices)))
    elif approval.schema is not None and not is_yes_or_no(approval.schema):
        field = fields_of(approval)
        is_form = field is not None and has_form(approval)
        facts.append(("wants", "\n".join(outline(field)) if field and is_form else _value_text(approval.schema)))
    return facts


def _question_card(approval: Approval, now: datetime) -> Card:
    """Return the card of a question: its text, and how to answer it."""
    facts = asked_facts(approval)
    choices: list[Choice] = []
    if approval.choices is not None:
        if len(approval.choices) > len(NUMBERS):
            choices.append(Choice("a", "answer", "type one of the choices exactly as it is written"))
        else:
            facts.pop()  # each has its key
            choices += [Choice(key, quoted(choice), "") for key, choice in zip(NUMBERS, approval.choices, strict=False)]
    elif is_yes_or_no(approval.schema):
        choices += [Choice("y", "yes", ""), Choice("n", "no", "")]
    elif approval.schema is not None:
        way = "fill it in, field by field" if has_form(approval) else "type JSON that fits the schema under wants"
        choices.append(Choice("a", "answer", way))
    else:
        choices.append(Choice("a", "answer", "type it in your own words"))
    unanswered = f"{visible(approval.path[-1])} gets no answer; it is told so, with your reason"
    return Card(
        approval=approval.id,
        headline=headline(approval),
        facts=(*facts, *origin(approval, now)),
        choices=(*choices, Choice("d", "decline", unanswered)),
    )


def with_choices(facts: tuple[tuple[str, str], ...], approval: Approval, room: int) -> tuple[tuple[str, str], ...]:
    """Return a question's facts, with its choices if one of them does not fit on a button of `room` UTF-16 units."""
    is_missing = approval.choices is not None and not any(label == "choices" for label, _ in facts)
    if is_missing and any(length(visible(choice)) > room for choice in approval.choices or ()):
        return (facts[0], asked_facts(approval)[-1], *facts[1:])
    return facts


def remark(approval: Approval, unseen: int, presses: int, link: str | None) -> str:
    """Return the remark of a card that leaves something out; "" if it leaves out nothing.

    `unseen`: characters of the request that the card does not show; `presses`: buttons that it lacks; `link`: the
    address of the web inbox.
    """
    where = page_of(approval, link) or "supervisor approvals (on the command line)"
    if unseen:
        done = "answered" if approval.kind == "question" else "approved"
        return f"{unseen} characters are not shown here, so it cannot be {done} here. See all of it: {where}"
    return f"More choices are here: {where}" if presses else ""


def page_of(approval: Approval, link: str | None) -> str | None:
    """Return the address of an approval's page in the web inbox; None without a web inbox."""
    return None if link is None else f"{link.rstrip('/')}/approvals/{approval.id}"


def headline(approval: Approval) -> str:
    """Return who asks what, in one line."""
    what = "asks a question" if approval.kind == "question" else f"asks to call {visible(approval.tool)}"
    return f"{path_text(approval.path)} {what}"


def quoted(choice: str) -> str:
    """Return a choice in quotation marks, so that an agent's text cannot be taken for a word of ours."""
    return f"“{visible(choice)}”"


def origin(approval: Approval, now: datetime) -> list[tuple[str, str]]:
    """Return the facts of who asks: requester, times, persons asked as well, and the ids."""
    facts = [("for", visible(approval.requester))]
    facts.append(("since", f"{at(approval.created_at, now)} ({ago(approval.created_at, now)})"))
    if approval.expires_at is not None:
        facts.append(("expires", at(approval.expires_at, now)))
    if approval.blocked and approval.status == "pending":
        facts.append(("blocked", "the agent's code no longer fits its journal; a decision takes effect once it does"))
    if approval.escalated_to:
        facts.append(("also asks", ", ".join(visible(name) for name in approval.escalated_to)))
    return [*facts, ("session", visible(approval.session)), ("approval", visible(approval.id))]


def with_instants(card: Card, approval: Approval, now: datetime) -> tuple[Facts, dict[str, datetime]]:
    """Return a card's facts without the times of `origin`, and these as instants. A chat platform shows an instant in
    its reader's time zone: a message that stays for days cannot say how long ago something was."""
    ending = origin(approval, now)  # the last facts; an argument may have the same label, and stays
    found = {"since": approval.created_at, "expires": approval.expires_at}
    kept = [fact for fact in ending if fact[0] not in found]
    facts = (*card.facts[: len(card.facts) - len(ending)], *kept)
    return facts, {label: instant for label, instant in found.items() if instant is not None}


_EDIT: Final = Choice("e", "edit", "change the arguments; you see them again before anything runs")
_LONGER: Final = Choice("s w", "longer", "choose what to allow, for this session (s) or always (w)")
"""Two keys share a line, since a screen has few. Each opens a list of patterns, and decides nothing by itself."""


def path_text(path: tuple[str, ...]) -> str:
    """Return the agents from the root to a session in one line, made safe for a screen."""
    return PATH_SEPARATOR.join(visible(name) for name in path)


def without_place(arguments: Any) -> Any:
    """Return arguments without the folder of the call, which cards show as `where`."""
    is_place = isinstance(arguments, dict) and isinstance(arguments.get("cwd"), str)
    return {name: value for name, value in arguments.items() if name != "cwd"} if is_place else arguments


def arguments_facts(
    arguments: Any, command: str | None = None, defaults: Collection[str] = ()
) -> list[tuple[str, str]]:
    """Return (label, text) of each argument that is set, then the names of the others. `command`: the name of the
    argument that is a shell command; it is the first. `defaults`: the names of those that have their default value;
    they are the last, and their labels say so (`is_default`).

    A text that a screen may draw in another order than it runs is repeated, escaped.
    """
    if not isinstance(arguments, dict):
        return [*_both_ways("arguments", _value_text(arguments))]
    facts: list[tuple[str, str]] = []
    unset: list[str] = []
    for name, value in sorted(arguments.items(), key=lambda item: (item[0] != command, item[0] in defaults)):
        label = f"{visible(str(name))}{DEFAULT}" if name in defaults and name != command else _label(str(name))
        if value is None:
            unset.append(visible(str(name)))
        elif name == command and _is_words(value):
            facts += _both_ways(label, _text(shlex.join(value)))
        elif name == command and isinstance(value, str):
            facts += [*_both_ways(label, _text(value)), ("run by", "a shell, which obeys ; && | > $( )")]
        else:
            facts += _both_ways(label, _value_text(value))
    if unset:
        facts.append(("not set", ", ".join(unset)))
    return facts


def is_default(label: str) -> bool:
    """Whether a fact is an argument that has its default value, which a surface may show less prominently."""
    return label.endswith(DEFAULT)


def _label(name: str) -> str:
    """Return the label of an argument. One whose name ends as the label of a default value does is quoted."""
    label = visible(name)
    return quoted(name) if is_default(label) else label


def _both_ways(label: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield a fact, then its text in the order in which it was written if a screen may draw it in another order."""
    yield label, text
    if is_reordered(text):
        yield ORDERED, visible(text, lines=True, ordered=True)


def _is_words(value: Any) -> bool:
    return isinstance(value, list | tuple) and bool(value) and all(isinstance(word, str) for word in value)


def _value_text(value: Any) -> str:
    """Return an unmistakable string as it is, and any other value as JSON."""
    if isinstance(value, str) and ("\n" in value or _is_plain(value)):
        return _text(value)
    body = msgspec.json.encode(value)
    text = body.decode()
    return _text(text if len(text) <= 60 else msgspec.json.format(body, indent=2).decode())


def _text(text: str) -> str:
    return gathered(visible(text, lines=True))


def _is_plain(text: str) -> bool:
    """Whether a string shown without quotes cannot be taken for another value, or for another string."""
    if not text or text != text.strip():
        return False
    try:
        from_json(text, Any, "an argument")
    except InvalidInput:
        return True
    return False


def place(approval: Approval, arguments: Any) -> str:
    """Return the folder in which the call would run."""
    own = arguments.get("cwd") if isinstance(arguments, dict) else None
    return visible(folder_of_call(approval.cwd, own if isinstance(own, str) else None), ordered=True)


def question_text(approval: Approval) -> str:
    """Return a question in one line."""
    return _text(approval.question or "").replace("\n", " ⏎ ")


def summary(approval: Approval, width: int = 60) -> str:
    """Return one line for lists. A long one is visibly cut in the middle; a decision from a list needs the id."""
    is_question = approval.kind == "question"
    called = approval.tool, approval.arguments, approval.command, approval.defaults
    text = question_text(approval) if is_question else call_text(*called)
    if len(text) <= width:
        return text
    tail = (width - 1) // 3
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def still_waits(approval: Approval) -> str:
    """Return the text of a reminder."""
    also = f"; now also asks {', '.join(visible(name) for name in approval.escalated_to)}" * bool(approval.escalated_to)
    return f"Still waits: {path_text(approval.path)} asks: {summary(approval, 200)}{also}"


def call_text(tool: str, arguments: Any, command: str | None = None, defaults: Collection[str] = ()) -> str:
    """Return a call in one line: its tool, and its command or the first of its arguments."""
    facts = arguments_facts(arguments, command, defaults)
    text = facts[0][1].replace("\n", " ⏎ ") if facts else ""
    return f"{visible(tool)}: {text}" if text else visible(tool)


def plain(card: Card, commands: dict[str, str]) -> str:
    """Return a card as lines for a log or a pipe; `commands`: the command of each choice, by its word."""
    lines = [card.headline]
    for label, text in card.facts:
        first, *more = text.split("\n")
        lines.append(f"  {label:<9} {GUTTER if more else ''}{first}")
        lines += [f"  {'':<9} {GUTTER}{line}" for line in more]
    for choice in card.choices:
        if choice.word in commands:
            effect = "runs it once, with the JSON object of all arguments that you give"
            effect = effect if choice.word == "edit" else choice.effect
            lines += [f"  to {choice.word}: {commands[choice.word]}", *([f"    ({effect})"] if effect else [])]
    if card.wider and "wider" in commands:
        lines.append(f"  to allow it for longer (the first pattern, or another by --pattern): {commands['wider']}")
        for grant in card.wider:
            lines += [f"    {GUTTER}{line}" for line in grant.pattern.split("\n")]
            lines.append(f"    ({grant.covers})")
    return "\n".join(lines)


def with_gutter(text: str) -> str:
    """Return a fact's text; several lines each begin with a gutter, so that they cannot imitate other facts."""
    return text if "\n" not in text else "\n".join(f"{GUTTER}{line}" for line in text.split("\n"))


def fact_lines(facts: Facts) -> str:
    """Return a card's facts, with their gutters, as lines of one width."""
    return "\n".join(f"{label}\n{text}" if "\n" in text else f"{label:<9} {text}" for label, text in facts)


def at(when: datetime, now: datetime) -> str:
    """Return an instant in the time zone of `now`, with its date only if it is on another day."""
    local = when.astimezone(now.tzinfo)
    return f"{local:%H:%M:%S}" if local.date() == now.date() else f"{local:%Y-%m-%d %H:%M}"


def ago(when: datetime, now: datetime) -> str:
    """Return how long ago it was, in whole days, hours, minutes or seconds."""
    seconds = max(0, int((now - when).total_seconds()))
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= size * (2 if unit == "days" else 1):
            return f"{seconds // size} {unit} ago"
    return f"{seconds} s ago"


def decided(approval: Approval, now: datetime | None) -> str:
    """Return how an approval ended, as the text that replaces its choices; without the time if `now` is None, for
    surfaces that show instants by themselves."""
    when = f" at {at(approval.decided_at, now)}" if approval.decided_at and now is not None else ""
    by = f" by {visible(approval.by)}" if approval.by else ""
    because = f": {visible(approval.reason)}" if approval.reason else ""
    is_question = approval.kind == "question"
    match approval.status:
        case "approved":
            edited = " with other arguments than were asked," if approval.edited else ""
            return f"approved{edited}{by}{when}{_standing(approval)}"
        case "denied":
            return f"{'declined' if is_question else 'denied'}{by}{when}{_standing(approval)}{because}"
        case "answered":
            return f"answered {answer_text(approval.answer)}{by}{when}"
        case "pending":
            return "pending"
        case status:
            return f"{status}{when}{because}; {'it has no answer' if is_question else 'nothing runs'}"


def answer_text(answer: Any) -> str:
    """Return the answer to a question in one line."""
    return quoted(answer) if isinstance(answer, str) else visible(msgspec.json.encode(answer).decode())


def _standing(approval: Approval) -> str:
    """Return what a decision allows or denies beyond its call."""
    if approval.rule is None or approval.scope is None:
        return ""
    pattern = visible(approval.pattern or "", ordered=True)
    return f", and {HOW_LONG[approval.scope]}: {pattern} (rule {visible(approval.rule)})"


def heard_lines(heard: ChatResult, now: datetime) -> list[str]:
    """Return what a chat word has done, for the person who sent it; no lines for a message (A12)."""
    lines: list[str] = []
    for approval, result in zip(heard.approvals, heard.results, strict=False):
        if heard.kind == "decided":
            lines.append(f"{told(result, now)}: {summary(approval)} [{approval.id}]")
    lines += [f"{told(result, now)} [{result.approval}]" for result in heard.results if result.kind == "unknown"]
    if heard.kind == "decided":
        for rule in heard.rules:
            what = visible(f"{rule.tool}: {rule.pattern or 'any call'}", ordered=True)
            lines.append(f"from now on {what} runs without asking {where(rule.session)} [{rule.id}]")
        for approval in heard.once:
            lines.append(f"approved once only: {summary(approval)} [{approval.id}]")
        for approval in heard.not_shown:
            lines.append(f"not decided, you had not been shown it: {summary(approval)}  (yes {approval.id})")
        if heard.may_not_allow:
            lines.append("you may not allow all of these calls for the session")
        return lines or ["nothing waits for you here"]
    if heard.kind == "listed":
        lines.append("nothing was decided; waiting for you:" if heard.approvals else "nothing waits for you here")
        for approval in heard.approvals:
            how = f"answer by its id, {approval.id}" if is_open_question(approval) else f"yes {approval.id}"
            lines.append(f"  {headline(approval)}: {summary(approval)}  ({how})")
    return lines


def is_open_question(approval: Approval) -> bool:
    """Whether it is a question that wants another answer than yes or no."""
    return approval.kind == "question" and not is_yes_or_no(approval.schema)


def told(result: DecisionResult, now: datetime) -> str:
    """Return the result of a decision, for the person who made it (A3)."""
    by = f" by {visible(result.by)}" if result.by else ""
    when = f" at {at(result.decided_at, now)}" if result.decided_at else ""
    match result.kind:
        case "accepted" | "recorded":
            rule = f"; rule {result.rule} holds from now on" if result.rule else ""
            others = f"; so are {len(result.released)} equal ones that waited" if result.released else ""
            waits = "; the session is blocked, and acts on it once its code fits its journal" if result.blocked else ""
            return f"{result.status or 'decided'}{by}{rule}{others}{waits}"
        case "already":
            return f"already {result.status}{by}{when}; nothing changes"
        case "conflict":
            return f"not counted: it was {result.status}{by}{when}; the first decision stands"
        case "closed":
            became = {"withdrawn": "was withdrawn", "expired": "has expired"}.get(result.status or "", "is gone")
            return f"not counted: it {became}{when}, and nothing waits for it any more"
        case _:
            return "not counted: there is no such approval here"
