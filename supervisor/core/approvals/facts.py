"""What a card says: facts, each of a kind. All surfaces pick, order and draw by the kind, never by the label.

    Approval -> facts_of -> Fact, ... -> a surface draws them, and says which of them it showed whole

An argument may have any name and any text. So what is ours and what came from an agent is a property of a fact, and the
label of a fact says it on every surface: names of arguments and claims are in quotation marks, our own labels are not.

    "command"            rm -rf build                 a command
    run by               a shell, which obeys ...     ours
    where                /srv/live                    the place
    "where"              /tmp/scratch                 an argument
    "timeout" (default)  30                           an argument that has its default value
    "description" (claim)                             the agent's own words about the call
    not set              "env", "to"                  the names of arguments that are null

Rules
- `facts_of` is the only maker of what a card says of a request.
- Two calls that differ have different facts: a name and a value are written so that they can be read back. Masked
  values are excepted. A folder that the call names is left out of the arguments only where the place says the same.
- A name is written as JSON, and a value as it is, or as JSON if it could be taken for another value.
- A text that a screen may draw in another order than it runs is repeated (drawing.py).
- Whether a request is shown whole is asked of the facts that are `is_needed`: what runs, where, and what is asked. The
  reasons of people and agents, and our own lines, may be cut.
- Pure: `now` is an argument, and times are shown in its time zone.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any, Final, Literal

import msgspec

from supervisor.core.approvals.drawing import Drawn, draw_code, draw_command, draw_prose, draw_value
from supervisor.core.approvals.questions import is_yes_or_no
from supervisor.core.calls.content import CallContent, Field, shown_content
from supervisor.core.calls.folders import folder_of_call
from supervisor.core.ids import digest_of_value
from supervisor.core.text.masks import hide, mask_arguments
from supervisor.core.text.visible import gathered, visible
from supervisor.core.values import Approval, unchanged

Kind = Literal["argument", "command", "place", "claim", "question", "because", "evidence", "review", "ours"]
"""argument, command, claim: a field of the call; place: the folder in which it runs; question: what is asked, and how
it may be answered; because: the caller's own words; evidence, review: what was found out about the call; ours: all
else."""
NEEDED: Final = frozenset({"argument", "command", "place", "claim", "question"})
ORDERED: Final = "in order"
"""Label of a fact that repeats the one before it in the order in which it was written, with the letters that are
written from right to left marked."""
CLAIM: Final = " (claim)"
"""What follows the name of a field that is the agent's own words about the call."""
DIFF: Final = "the agent's diff"
"""Name of the claim that is evidence."""
WANTS: Final = "wants"
"""Name of the fact that tells what the answer to a question is."""


class Fact(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a card says. `name`: of an argument or a claim as it came, else our own words. `text`: safe for a
    screen, perhaps of several lines."""

    kind: Kind
    name: str
    text: str
    is_default: bool = False
    """Whether it is an argument that has its default value. A surface may show it less prominently."""
    is_unset: bool = False
    """Whether it lists the names of the arguments that are not set."""
    is_ordered: bool = False
    """Whether it repeats the fact before it, in the order in which it was written."""
    instant: datetime | None = None
    """The time that it tells. A surface may show it in its reader's time zone instead of the text."""

    @property
    def is_needed(self) -> bool:
        """Whether a request is not shown whole without it."""
        return self.kind in NEEDED

    @property
    def is_id(self) -> bool:
        """Whether it is an id of ours, which is never cut."""
        return self.kind == "ours" and self.name in ("session", "approval")

    @property
    def label(self) -> str:
        """What a surface writes before the text. No name of an argument makes it one of ours."""
        if self.is_ordered or self.is_unset or self.kind not in ("argument", "command", "claim"):
            return ORDERED if self.is_ordered else self.name
        claimed = CLAIM if self.kind == "claim" else ""
        return f"{name_text(self.name)}{claimed}{' (default)' if self.is_default else ''}"


def facts_of(approval: Approval, now: datetime, *, edited: Any = None, wants: str | None = None) -> list[Fact]:
    """Return all that a card says of an approval, in its order. `edited`: the arguments that the person would approve
    instead. `wants`: the fields of a form, where a surface shows a question's schema as one."""
    if approval.kind == "question":
        return [*_question(approval, wants), *_ours(approval, now)]
    shown = approval.arguments if edited is None else hide(mask_arguments(edited, approval.secret))
    content = content_shown(approval, shown)
    facts = argument_facts(content, has_place=True)
    first = sum(fact.kind == "command" for fact in facts)
    first += any(fact.kind == "ours" for fact in facts[first : first + 1])  # what runs the command
    facts.insert(first, place_of(content))
    digest = approval.digest if edited is None else digest_of_value(mask_arguments(edited, approval.secret))
    facts += _evidence(approval, now, digest)
    if edited is not None:
        facts.append(Fact(kind="ours", name="edited", text="by you, just now; nothing is decided yet"))
    return [*facts, *_ours(approval, now)]


def content_shown(approval: Approval, arguments: Any) -> CallContent:
    """Return the content of the call of an approval, with what may be shown of its arguments."""
    return shown_content(
        approval.tool,
        arguments,
        digest=approval.digest,
        folder=approval.cwd,
        command=approval.command,
        claims=approval.claims,
        defaults=approval.defaults
        if arguments is approval.arguments
        else unchanged(approval.defaults, approval.arguments, arguments),
    )


def is_whole(approval: Approval, shown: Iterable[Fact]) -> bool:
    """Whether a surface that showed these facts showed a request whole. The fields of a form stand for its schema."""
    found = {_identity(fact) for fact in shown}
    needed = [fact for fact in facts_of(approval, approval.created_at) if fact.is_needed]
    return all(_identity(fact) in found for fact in needed)


def _identity(fact: Fact) -> tuple[str, str, str, bool]:
    is_schema = fact.kind == "question" and fact.name == WANTS
    return fact.kind, fact.name, "" if is_schema else fact.text, fact.is_ordered


def argument_facts(content: CallContent, *, has_place: bool = False) -> list[Fact]:
    """Return the fields of a call: the command, the arguments, the claims, those with their default value, and the
    names of those that are not set. `has_place`: the place is shown, too."""
    if not isinstance(content.arguments, dict):
        return [*_both_ways("argument", "arguments", draw_value(content.arguments))]
    facts: list[tuple[int, Fact]] = []
    unset: list[str] = []
    for field in content.fields:
        kind: Kind = "claim" if field.kind == "claim" else "command" if field.is_command else "argument"
        if field.value is None:
            unset.append(f"{name_text(field.name)}{CLAIM if kind == 'claim' else ''}")
            continue
        if has_place and field.name == "cwd" and _says_place(content, field.value):
            continue
        rank = 0 if field.is_command else 3 if field.is_default else 2 if kind == "claim" else 1
        is_default = field.is_default and not field.is_command
        drawn = _drawn(field)
        facts += [(rank, each) for each in _both_ways(kind, field.name, drawn, is_default=is_default)]
        if field.is_command and isinstance(field.value, str):
            facts.append((rank, Fact(kind="ours", name="run by", text="a shell, which obeys ; && | > $( )")))
    found = [fact for _, fact in sorted(facts, key=lambda each: each[0])]
    if unset:
        found.append(Fact(kind="argument", name="not set", text=", ".join(unset), is_unset=True))
    return found


def place_of(content: CallContent) -> Fact:
    """Return the folder in which a call would run."""
    own = content.arguments.get("cwd") if isinstance(content.arguments, dict) else None
    folder = folder_of_call(content.folder or "", own if isinstance(own, str) else None)
    return Fact(kind="place", name="where", text=visible(folder, ordered=True))


def call_line(content: CallContent) -> str:
    """Return the command of a call, or the first of its arguments, in one line; "" if none is set."""
    facts = argument_facts(content)
    return _in_line(facts[0].text) if facts and not facts[0].is_unset else ""


def question_line(approval: Approval) -> str:
    """Return a question in one line."""
    return _in_line(draw_prose(approval.question or "").text)


def name_text(name: str) -> str:
    """Return the name of an argument in quotation marks, so that it cannot be taken for a label of ours."""
    return gathered(visible(msgspec.json.encode(name).decode()))


def instant_text(when: datetime, now: datetime) -> str:
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


def _question(approval: Approval, wants: str | None) -> Iterator[Fact]:
    """Yield the text of a question, and the answers that it takes."""
    yield Fact(kind="question", name="question", text=draw_prose(approval.question or "").text)
    if approval.choices is not None:
        choices = "\n".join(f"“{visible(choice, kind='prose')}”" for choice in approval.choices)
        yield Fact(kind="question", name="choices", text=choices)
    elif approval.schema is not None and not is_yes_or_no(approval.schema):
        text = draw_value(approval.schema).text if wants is None else wants
        yield Fact(kind="question", name=WANTS, text=text)


def _agents_words(approval: Approval) -> Iterator[Fact]:
    """Yield what the agent says to the person who decides."""
    if approval.because:
        yield Fact(kind="because", name="the agent says", text=draw_prose(approval.because).text)
    if approval.urgency is not None:
        yield _our("urgency", f"at most {approval.urgency}, the agent says")


def _ours(approval: Approval, now: datetime) -> Iterator[Fact]:
    """Yield why a person is asked, who asks, the times, the persons asked as well, and the ids."""
    yield from _agents_words(approval)
    if approval.why:
        yield _our("why", draw_prose(approval.why, "words").text)
    if approval.note:
        yield _our("note", draw_prose(approval.note).text)
    if approval.inputs:
        yield _our("input", "\n".join(_inputs(approval)))
    yield _our("for", visible(approval.requester))
    since = f"{instant_text(approval.created_at, now)} ({ago(approval.created_at, now)})"
    yield Fact(kind="ours", name="since", text=since, instant=approval.created_at)
    if approval.expires_at is not None:
        yield Fact(
            kind="ours", name="expires", text=instant_text(approval.expires_at, now), instant=approval.expires_at
        )
    if approval.blocked and approval.status == "pending":
        yield _our("blocked", "the agent's code no longer fits its journal; a decision takes effect once it does")
    yield from _votes(approval)
    if approval.escalated_to:
        yield _our("also asks", ", ".join(visible(name) for name in approval.escalated_to))
    if approval.acknowledged is not None and approval.acknowledged.until > now:
        on_it = approval.acknowledged
        yield _our("on it", f"{visible(on_it.by)}, until {instant_text(on_it.until, now)}")
    if approval.masked:
        yield _our("masked", f"credentials; an operator sees them by: supervisor approvals --reveal {approval.id}")
    yield _our("session", visible(approval.session))
    yield _our("approval", visible(approval.id))


def _votes(approval: Approval) -> Iterator[Fact]:
    """Yield who has said yes to the same, of how many."""
    for digest in dict.fromkeys(each.digest for each in approval.votes):
        same = [each for each in approval.votes if each.digest == digest]
        other = "" if digest == approval.digest else " (not for this call as it was asked)"
        names = ", ".join(visible(each.by) for each in same)
        yield _our("votes", f"{len(same)} of {same[0].quorum}: {names}{other}")


def _evidence(approval: Approval, now: datetime, digest: str) -> Iterator[Fact]:
    """Yield what the preview of these arguments has found out, or why it has found out nothing; or what the agent says
    that the call would do."""
    for each in approval.evidence:
        if each.kind == "claim":
            yield from _both_ways("claim", DIFF, draw_value(each.text))
        elif each.digest == digest:
            name = "preview" if each.kind == "text" or each.failure else f"preview ({each.kind})"
            text = f"failed: {draw_prose(each.failure).text}" if each.failure else draw_code(each.text).text
            yield Fact(kind="evidence", name=name, text=f"{text}\n(read at {instant_text(each.taken_at, now)})")


def _our(name: str, text: str) -> Fact:
    return Fact(kind="ours", name=name, text=text)


def _inputs(approval: Approval) -> Iterator[str]:
    """Yield the input of each sub-agent in the path, if it has one."""
    for name, given in zip(approval.path[-len(approval.inputs) :], approval.inputs, strict=False):
        if given:
            yield f"{visible(name)}: {_in_line(draw_prose(given, 'words').text)}"


def _says_place(content: CallContent, folder: Any) -> bool:
    """Whether the place says all that the argument says: it is an absolute folder, and not the one of a call that names
    none."""
    return isinstance(folder, str) and folder.startswith("/") and folder != content.folder


def _drawn(field: Field) -> Drawn:
    if field.is_command:
        return draw_command(field.value)
    return draw_code(field.value) if field.is_path and isinstance(field.value, str) else draw_value(field.value)


def _both_ways(kind: Kind, name: str, drawn: Drawn, *, is_default: bool = False) -> Iterator[Fact]:
    """Yield a fact, then its text in the order in which it was written if a screen may draw it in another order."""
    yield Fact(kind=kind, name=name, text=drawn.text, is_default=is_default)
    if drawn.in_order:
        yield Fact(kind=kind, name=name, text=drawn.in_order, is_ordered=True)


def _in_line(text: str) -> str:
    return text.replace("\n", " ⏎ ")
