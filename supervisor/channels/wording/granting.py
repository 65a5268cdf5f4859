"""The texts of rules that a person may grant: every surface uses the same words.

    a pattern > what it covers > its reach: where, for whom, until when

Rules
- A pattern is shown whole before a person grants it (A7), with what it covers beyond this call.
- A text names the session in which a rule holds: the root session, which may be another one than the asking session.
- Pure.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, NamedTuple

import msgspec

from supervisor.core.approvals.facts import instant_text
from supervisor.core.calls.edits import BUT_FOR, EDITORS, folder_in
from supervisor.core.calls.rules import Rule, find_option, patterns_of
from supervisor.core.calls.shell_patterns import what_prefix_shows
from supervisor.core.text.visible import visible
from supervisor.core.values import HOW_LONG as HOW_LONG, Allowance, Approval, Approve, Decision, Option, Scope

APPROVE: Final = "approve"
ALLOW: Final = "allow"
"""With a dot and an index: the codes of buttons (channels/chat/presses.py)."""
WIDER: Final[tuple[Scope, ...]] = ("session", "always")


class Grant(msgspec.Struct, frozen=True):
    """A way to allow more than this one call. `code`: that of its button; `pattern`: safe for a screen, shown whole,
    perhaps of several lines; `covers`: a text that says what it covers."""

    code: str
    option: Option
    pattern: str
    covers: str
    allowance: Allowance | None = None
    """The end that it has by itself, if it has one."""

    @property
    def words(self) -> str:
        """For how long it allows later calls."""
        return HOW_LONG[self.option.scope] if self.allowance is None else allowance_label(self.allowance)

    def approve(self, by: str) -> Approve:
        """Return the decision of a person who chooses it."""
        if self.allowance is not None:
            return approve_for(self.allowance, by)
        return Approve(by=by, scope=self.option.scope, pattern=self.option.pattern)


def grants(approval: Approval, scope: Scope) -> tuple[Grant, ...]:
    """Return what may be granted in a scope: first the allowances of the session, then the exact pattern; nothing if
    only "once" is offered."""

    def made(code: str, pattern: str, option: Option, ends: Allowance | None = None) -> Grant:
        return Grant(code, option, visible(pattern, lines=True, ordered=True), _covers(approval, pattern), ends)

    ending = approval.allowances if scope == "session" else ()
    first = [
        made(f"{ALLOW}.{place}", each.pattern, Option("session", each.pattern), each)
        for place, each in enumerate(ending)
    ]
    return *first, *(
        made(f"{APPROVE}.{place}", option.pattern, option)
        for place, option in enumerate(approval.options)
        if option.scope == scope and option.pattern is not None
    )


class LongerWay(NamedTuple):
    """A pattern, what it covers, and the options of `supervisor approve` that grant it, each by itself."""

    options: list[str]
    pattern: str
    covers: str


def longer_ways(wider: Iterable[Grant]) -> list[LongerWay]:
    """Return what a person at a shell may grant for longer than once. Each pattern stands once for its allowances, and
    once for the scopes."""
    wider = tuple(wider)
    usual = find_option((grant.option for grant in wider if grant.allowance is None), "session", None)
    ways: dict[tuple[bool, str], LongerWay] = {}
    number = 0
    for grant in wider:
        if (ends := grant.allowance) is not None:
            option = f"--uses {ends.uses}" if ends.uses else f"--for {ends.minutes}m"
        else:
            number += 1
            option = "--scope session|always" + (f" --pattern {number}" * (grant.option != usual))
        way = LongerWay([], grant.pattern, grant.covers)
        ways.setdefault((ends is None, grant.pattern), way).options.append(option)
    return list(ways.values())


def with_meant_pattern(approval: Approval, made: Decision) -> Decision:
    """Return a decision from a shell with the pattern that `longer_ways` shows for its options."""
    if not isinstance(made, Approve):
        return made
    offered = [option.pattern for option in approval.options if option.scope == "session"]
    if made.pattern is not None and made.pattern not in offered and made.pattern.isdecimal():
        number = int(made.pattern)
        return msgspec.structs.replace(made, pattern=offered[number - 1]) if 0 < number <= len(offered) else made
    has_end = made.uses is not None or made.minutes is not None
    if made.pattern is None and made.scope != "always" and has_end and approval.allowances:
        return msgspec.structs.replace(made, pattern=approval.allowances[0].pattern)
    return made


def allowance_label(allowance: Allowance) -> str:
    """Return the label of an allowance, the same on every surface."""
    return f"{allowance.minutes} minutes" if allowance.uses is None else f"The next {allowance.uses} like it"


def approve_for(allowance: Allowance, by: str) -> Approve:
    """Return the decision of a person who chooses an allowance."""
    return Approve(by=by, scope="session", pattern=allowance.pattern, uses=allowance.uses, minutes=allowance.minutes)


def _covers(approval: Approval, pattern: str) -> str:
    if approval.command is None and folder_in(pattern) is not None:
        whose = "each of Claude Code's editors" if approval.tool in EDITORS else visible(approval.tool)
        return f"each edit of a file in this folder by {whose}, {BUT_FOR}"
    if approval.command is None:
        return f"{visible(approval.tool)} with exactly these arguments"
    if len(several := patterns_of(pattern)) > 1:
        shown = ", ".join(dict.fromkeys(filter(None, map(what_prefix_shows, several))))
        more = "each of these, alone or together, also with other operands in this folder and with options known to be"
        return f"{more} harmless" + (f": they show {shown}, and where links there lead" if shown else "")
    if pattern.endswith(" *"):
        shows = what_prefix_shows(pattern)
        more = "also with other operands in this folder and with options known to be harmless"
        return more if shows is None else f"{more}: it shows {shows}, and where links there lead"
    return "exactly this command"


def grant_text(approval: Approval, option: Option, allowance: Allowance | None = None) -> str:
    """Return the rule that a decision makes, in one line; "" if it decides only this call."""
    if option.scope == "once":
        return ""
    pattern = " and ".join(visible(each, ordered=True) for each in patterns_of(option.pattern or "exactly this call"))
    return f"{visible(approval.tool)}: {pattern} runs without asking {reach(approval, option.scope, allowance)}"


def reach(approval: Approval, scope: Scope, allowance: Allowance | None = None) -> str:
    """Return where, for whom and until when a scope wider than once holds."""
    whom = "for all of its agents" if scope == "session" else "for every agent"
    end = "until it is revoked"
    if allowance is not None:
        end = f"the next {allowance.uses} times" if allowance.uses else f"for {allowance.minutes} minutes"
    return f"{where_rule_holds(approval.root_session if scope == 'session' else None)}, {whom}, {end}"


def ending_of(rule: Rule, now: datetime) -> str:
    """Return when an allowance ends, and what it has left; "" for a rule without an end."""
    parts = []
    if rule.uses is not None:
        parts.append(f"{max(0, rule.uses - rule.used)} of {rule.uses} calls left")
    if rule.until is not None:
        parts.append(f"until {instant_text(rule.until, now)}")
    return ", ".join([*parts, *["ended"] * rule.ended])


def where_rule_holds(session: str | None) -> str:
    """Return where a rule holds: in the tree of one root session, or everywhere."""
    return "in every session" if session is None else f"in session {visible(session)}"
