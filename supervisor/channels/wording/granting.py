"""The texts of rules that a person may grant: every surface uses the same words.

    a pattern > what it covers > its reach: where, for whom, until when

Rules
- A pattern is shown whole before a person grants it (A7), with what it covers beyond this call.
- A text names the session in which a rule holds: the root session, which may be another one than the asking session.
- Pure.
"""

from typing import Final

import msgspec

from supervisor.core.calls.edits import BUT_FOR, EDITORS, folder_in
from supervisor.core.calls.rules import patterns_of
from supervisor.core.calls.shell_patterns import what_prefix_shows
from supervisor.core.text.visible import visible
from supervisor.core.values import HOW_LONG as HOW_LONG, Approval, Option, Scope

WIDER: Final[tuple[Scope, ...]] = ("session", "always")


class Grant(msgspec.Struct, frozen=True):
    """A way to allow more than this one call. `pattern`: safe for a screen, shown whole, perhaps of several lines;
    `covers`: a text that says what it covers."""

    option: Option
    pattern: str
    covers: str


def grants(approval: Approval, scope: Scope) -> tuple[Grant, ...]:
    """Return what may be granted in a scope, the exact pattern first; nothing if only "once" is offered."""
    return tuple(
        Grant(option, visible(option.pattern, lines=True, ordered=True), _covers(approval, option.pattern))
        for option in approval.options
        if option.scope == scope and option.pattern is not None
    )


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


def grant_text(approval: Approval, option: Option) -> str:
    """Return the rule that a decision makes, in one line; "" if it decides only this call."""
    if option.scope == "once":
        return ""
    pattern = " and ".join(visible(each, ordered=True) for each in patterns_of(option.pattern or "exactly this call"))
    return f"{visible(approval.tool)}: {pattern} runs without asking {reach(approval, option.scope)}"


def reach(approval: Approval, scope: Scope) -> str:
    """Return where, for whom and until when a scope wider than once holds."""
    whom = "for all of its agents" if scope == "session" else "for every agent"
    return f"{where_rule_holds(approval.root_session if scope == 'session' else None)}, {whom}, until it is revoked"


def where_rule_holds(session: str | None) -> str:
    """Return where a rule holds: in the tree of one root session, or everywhere."""
    return "in every session" if session is None else f"in session {visible(session)}"
