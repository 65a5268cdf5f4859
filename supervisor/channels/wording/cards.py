"""An approval as text: every surface uses the same words.

A card answers a tired person's questions in this order: what would run, where, who asks, since when, and what each
choice does.

Rules
- What a card says of a request are facts (core/approvals/facts.py). This module adds the headline and the choices, and
  draws facts as lines: it picks by kind, and tells an argument from a line of ours by the fact's own label.
- Each line of a text of several lines begins with a gutter, so that arguments cannot imitate the lines of the card.
- Ids are shown whole. This module never cuts what would run; a surface with less room says how much is missing.
- Pure: `now` is an argument, and times are shown in its time zone.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from supervisor.channels.wording.form_words import fields_of, has_form, outline
from supervisor.channels.wording.granting import HOW_LONG, Grant, grants, longer_ways, where_rule_holds
from supervisor.channels.wording.lengths import DrawnFact, length
from supervisor.core.approvals.chat_words import ChatResult
from supervisor.core.approvals.facts import Fact, call_line, content_shown, facts_of, instant_text, question_line
from supervisor.core.approvals.questions import is_yes_or_no
from supervisor.core.calls.content import CallContent
from supervisor.core.calls.rules import end_words, patterns_of
from supervisor.core.ids import short_ids
from supervisor.core.text.visible import visible
from supervisor.core.values import Approval, DecisionResult

GUTTER: Final = "│ "
NUMBERS: Final = "123456789"
"""Keys of a question's choices."""
PATH_SEPARATOR: Final = " > "
REMINDED_OF: Final = 10
"""The approvals that the reminder of many names."""


class Choice(msgspec.Struct, frozen=True):
    """A key, its word, and its effect."""

    key: str
    word: str
    effect: str


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """An approval, ready to be shown. Each text is safe for a screen. The text of a fact may have several lines."""

    approval: str
    headline: str
    facts: tuple[Fact, ...]
    choices: tuple[Choice, ...]
    wider: tuple[Grant, ...] = ()
    """What the person may allow for longer than once."""


def make_card(approval: Approval, now: datetime, *, edited: Any = None) -> Card:
    """Return the card of a pending approval; `edited`: the arguments that the person would approve instead."""
    if approval.kind == "question":
        return _question_card(approval, now)
    agent = visible(approval.path[-1])
    wider = grants(approval, "session") if edited is None else ()  # what was edited was not offered (A8)
    runs = "runs it once, exactly as shown" if edited is None else "runs it once, with your arguments as shown"
    return Card(
        approval=approval.id,
        headline=headline(approval),
        facts=tuple(facts_of(approval, now, edited=edited)),
        wider=wider,
        choices=(
            Choice("a", "approve", runs),
            *((_LONGER,) if wider else ()),
            *((_EDIT,) if approval.editable else ()),
            Choice("d", "deny", f"nothing runs; {agent} is told so, with your reason, and goes on"),
        ),
    )


def all_facts(approval: Approval, now: datetime) -> list[Fact]:
    """Return what a card says of an approval, with the fields of a question's form."""
    return facts_of(approval, now, wants=_wants(approval))


def asked_facts(approval: Approval) -> list[Fact]:
    """Return what is asked: the call with its place; the text of a question and its possible answers."""
    return [fact for fact in all_facts(approval, approval.created_at) if fact.is_needed or fact.name == "run by"]


def _wants(approval: Approval) -> str | None:
    if approval.kind != "question" or approval.schema is None:
        return None
    field = fields_of(approval)
    return "\n".join(outline(field)) if field is not None and has_form(approval) else None


def _question_card(approval: Approval, now: datetime) -> Card:
    """Return the card of a question: its text, and how to answer it."""
    facts = all_facts(approval, now)
    choices: list[Choice] = []
    if approval.choices is not None:
        if len(approval.choices) > len(NUMBERS):
            choices.append(Choice("a", "answer", "type one of the choices exactly as it is written"))
        else:
            facts = [fact for fact in facts if fact != choices_of(approval)]  # each has its key
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
        facts=tuple(facts),
        choices=(*choices, Choice("d", "decline", unanswered)),
    )


def choices_of(approval: Approval) -> Fact | None:
    """Return the fact that lists the choices of a question; None for another approval."""
    if approval.kind != "question" or approval.choices is None:
        return None
    return asked_facts(approval)[-1]


def with_choices(facts: tuple[Fact, ...], approval: Approval, room: int) -> tuple[Fact, ...]:
    """Return a question's facts, with its choices if one of them does not fit on a button of `room` UTF-16 units."""
    found = choices_of(approval)
    if found is None or found in facts or are_on_buttons(approval, room):
        return facts
    return (facts[0], found, *facts[1:])


def are_on_buttons(approval: Approval, room: int) -> bool:
    """Whether each choice of a question fits on a button of `room` UTF-16 units."""
    return all(length(visible(choice, kind="prose")) <= room for choice in approval.choices or ())


def shown_whole(approval: Approval, drawn: Iterable[DrawnFact], room: int = 0) -> list[Fact]:
    """Return the facts that a card shows whole; `room`: that of a button, on which a choice of a question may stand."""
    found = [each.fact for each in drawn if each.is_whole]
    choices = choices_of(approval)
    return [*found, choices] if choices is not None and room and are_on_buttons(approval, room) else found


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
    return f"“{visible(choice, kind='prose')}”"


_EDIT: Final = Choice("e", "edit", "change the arguments; you see them again before anything runs")
_LONGER: Final = Choice("s w", "longer", "choose what to allow, for this session (s) or always (w)")
"""Two keys share a line, since a screen has few. Each opens a list of patterns, and decides nothing by itself."""


def path_text(path: tuple[str, ...]) -> str:
    """Return the agents from the root to a session in one line, made safe for a screen."""
    return PATH_SEPARATOR.join(visible(name) for name in path)


def summary(approval: Approval, width: int = 60) -> str:
    """Return one line for lists. A long one is visibly cut in the middle; a decision from a list needs the id."""
    is_question = approval.kind == "question"
    text = question_line(approval) if is_question else call_text(content_shown(approval, approval.arguments))
    if len(text) <= width:
        return text
    tail = (width - 1) // 3
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"


def still_waits(approval: Approval, *others: Approval, where: str = "") -> str:
    """Return the text of a reminder of one approval, or of several: how many, and the first ones. `where`: where people
    decide them, if no card stands there."""
    names = dict.fromkeys(name for each in (approval, *others) for name in each.escalated_to)
    also = f"; now also asks {', '.join(map(visible, names))}" * bool(names)
    if not others:
        says = f"Still waits: {path_text(approval.path)} asks: {summary(approval, 200)}{also}"
        return f"{says}\n{where}" if where else says
    every = (approval, *others)
    lines = [f"{path_text(each.path)} asks: {summary(each, 100)}" for each in every[:REMINDED_OF]]
    roots = len({each.root_session for each in every})
    sessions = f" in {roots} sessions" * (roots > 1)
    more = [f"and {len(every) - len(lines)} more"] * (len(every) > len(lines))
    return "\n".join([f"{len(every)} still wait{sessions}{also}:", *lines, *more, *([where] if where else [])])


def where_of(approvals: Sequence[Approval], link: str | None) -> str:
    """Return where people decide one approval, or several."""
    if len(approvals) > 1:
        return link or "See them on the command line: supervisor approvals"
    return page_of(approvals[0], link) or f"See it on the command line: supervisor approvals {approvals[0].id}"


def call_text(content: CallContent) -> str:
    """Return a call in one line: its tool, and its command or the first of its arguments."""
    text = call_line(content)
    return f"{visible(content.tool)}: {text}" if text else visible(content.tool)


def card_lines(card: Card, commands: dict[str, str]) -> str:
    """Return a card as lines for a log or a pipe; `commands`: the command of each choice, by its word."""
    lines = [card.headline]
    for fact in card.facts:
        first, *more = fact.text.split("\n")
        lines.append(f"  {fact.label:<9} {GUTTER if more else ''}{first}")
        lines += [f"  {'':<9} {GUTTER}{line}" for line in more]
    for choice in card.choices:
        if choice.word in commands:
            effect = "runs it once, with the JSON object of all arguments that you give"
            effect = effect if choice.word == "edit" else choice.effect
            lines += [f"  to {choice.word}: {commands[choice.word]}", *([f"    ({effect})"] if effect else [])]
    if card.wider and "wider" in commands:
        lines.append(f"  to allow it for longer: {commands['wider']}, where OPTION is")
        for way in longer_ways(card.wider):
            lines.append(f"    {' or '.join(way.options)}, which allows {way.covers}:")
            lines += [f"    {GUTTER}{line}" for line in way.pattern.split("\n")]
    return "\n".join(lines)


def with_gutter(text: str) -> str:
    """Return a fact's text; several lines each begin with a gutter, so that they cannot imitate other facts."""
    return text if "\n" not in text else "\n".join(f"{GUTTER}{line}" for line in text.split("\n"))


def draw(facts: Iterable[Fact]) -> tuple[DrawnFact, ...]:
    """Return facts as a surface of plain text writes them, each with its label and its gutters."""
    return tuple(DrawnFact(fact=fact, label=fact.label, text=with_gutter(fact.text)) for fact in facts)


def fact_lines(drawn: Iterable[DrawnFact]) -> str:
    """Return a card's facts as lines of one width. A text of several lines stands below its label."""
    return "\n".join(
        f"{each.label}\n{each.text}" if "\n" in each.text else f"{each.label:<9} {each.text}" for each in drawn
    )


def decided(approval: Approval, now: datetime | None) -> str:
    """Return how an approval ended, as the text that replaces its choices; without the time if `now` is None, for
    surfaces that show instants by themselves."""
    when = f" at {instant_text(approval.decided_at, now)}" if approval.decided_at and now is not None else ""
    by = f" by {' and '.join(map(visible, (*approval.with_votes_of, approval.by)))}" if approval.by else ""
    because = f": {visible(approval.reason, kind='prose')}" if approval.reason else ""
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
            return "still waits: asked again further down, or in another conversation"
        case status:
            return f"{status}{when}{because}; {'it has no answer' if is_question else 'nothing runs'}"


def answer_text(answer: Any) -> str:
    """Return the answer to a question in one line."""
    return quoted(answer) if isinstance(answer, str) else visible(msgspec.json.encode(answer).decode(), kind="words")


def _standing(approval: Approval) -> str:
    """Return what a decision allows or denies beyond its call."""
    if approval.rule is None or approval.scope is None:
        return ""
    pattern = " and ".join(visible(each, ordered=True) for each in patterns_of(approval.pattern or ""))
    rules = f"rules {', '.join(map(visible, approval.rules))}" if approval.rules else f"rule {visible(approval.rule)}"
    ends = end_words(approval.uses, approval.until)
    return f", and {HOW_LONG[approval.scope]}{ends}: {pattern} ({rules})"


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
            lines.append(f"from now on {what} runs without asking {where_rule_holds(rule.session)} [{rule.id}]")
        for approval in heard.once:
            lines.append(f"decided once only: {summary(approval)} [{approval.id}]")
        for approval in heard.not_shown:
            lines.append(f"not decided, you had not been shown it: {summary(approval)}  (yes {approval.id})")
        if heard.may_not_allow:
            lines.append("you may not allow all of these calls for the session")
        lines += [heard.hint] * bool(heard.hint)
        return lines or ["nothing waits for you here"]
    if heard.kind == "listed":
        lines.append("nothing was decided; waiting for you:" if heard.approvals else "nothing waits for you here")
        short = short_ids([each.id for each in heard.approvals])
        for approval in heard.approvals:
            how = f"answer by its id, {approval.id}" if is_open_question(approval) else f"yes {short[approval.id]}"
            lines.append(f"  {headline(approval)}: {summary(approval)}  ({how})")
    return lines


def is_open_question(approval: Approval) -> bool:
    """Whether it is a question that wants another answer than yes or no."""
    return approval.kind == "question" and not is_yes_or_no(approval.schema)


def told(result: DecisionResult, now: datetime) -> str:
    """Return the result of a decision, for the person who made it (A3)."""
    by = f" by {visible(result.by)}" if result.by else ""
    when = f" at {instant_text(result.decided_at, now)}" if result.decided_at else ""
    if result.why:
        return f"not decided: {visible(result.why, kind='words')}"
    match result.kind:
        case "accepted" | "recorded":
            rule = f"; rule {result.rule} holds from now on" if result.rule else ""
            rule = f"; rules {', '.join(result.rules)} hold from now on" if result.rules else rule
            others = f"; so are {len(result.released)} equal ones that waited" if result.released else ""
            waits = "; the session is blocked, and acts on it once its code fits its journal" if result.blocked else ""
            return f"{result.status or 'decided'}{by}{rule}{others}{waits}"
        case "counted":
            others = "1 more person" if result.missing == 1 else f"{result.missing} more people"
            return f"your vote counts{by}: {others} must decide the same, and until then it waits"
        case "unseen" if (evidence := result.evidence) is not None:
            said = f"failed: {visible(evidence.failure, kind='prose')}" if evidence.failure else "says:"
            text = "" if evidence.failure else f"\n{visible(evidence.text, lines=True)}"
            return f"nothing is decided yet: submit the same again to confirm it. Its preview {said}{text}"
        case "already":
            return f"already {result.status}{by}{when}; nothing changes"
        case "conflict":
            return f"not counted: it was {result.status}{by}{when}; the first decision stands"
        case "closed":
            became = {"withdrawn": "was withdrawn", "expired": "has expired"}.get(result.status or "", "is gone")
            return f"not counted: it {became}{when}, and nothing waits for it any more"
        case _:
            return "not counted: there is no such approval here"
