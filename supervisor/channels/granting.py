"""What can be granted for longer than one call, in words: the same on every surface.

    a pattern > what it covers > how far that reaches: where, for whom, until when

Rules
- A pattern is shown whole before it is granted (A7), with what it covers beyond this call.
- Where a rule holds is said with the id of its session: what asks may be a sub-agent, of another one.
- Pure.
"""

from typing import Final

import msgspec

from supervisor.core.rules import SHELL, is_prefix
from supervisor.core.shell_patterns import what_prefix_shows
from supervisor.core.values import Approval, Option, Scope
from supervisor.core.visible import visible

HOW_LONG: Final[dict[Scope, str]] = {"once": "once", "session": "for the session", "always": "always"}
WIDER: Final[tuple[Scope, ...]] = ("session", "always")


class Grant(msgspec.Struct, frozen=True):
    """A way to allow more than this one call: its pattern, safe for a screen and to be shown whole (it may have several
    lines), and in words what that covers."""

    option: Option
    pattern: str
    covers: str


def grants(approval: Approval, scope: Scope) -> tuple[Grant, ...]:
    """Return what may be granted for the session, or always: the exact pattern first; none if only once is offered."""
    return tuple(
        Grant(option, visible(option.pattern, lines=True, ordered=True), _covers(approval.tool, option.pattern))
        for option in approval.options
        if option.scope == scope and option.pattern is not None
    )


def _covers(tool: str, pattern: str) -> str:
    if is_prefix(tool, pattern):
        shows = what_prefix_shows(pattern)
        more = "also with other operands in this folder, and with options known to be harmless"
        return more if shows is None else f"{more}: it shows {shows}, and where links there lead"
    return "exactly this command" if tool == SHELL else f"{visible(tool)} with exactly these arguments"


def grant_text(approval: Approval, option: Option) -> str:
    """Return in one line the rule that a decision makes; "" if it decides this call alone."""
    if option.scope == "once":
        return ""
    pattern = visible(option.pattern or "exactly this call", ordered=True)
    return f"{visible(approval.tool)}: {pattern} runs without asking {reach(approval, option.scope)}"


def reach(approval: Approval, scope: Scope) -> str:
    """Say where, for whom and until when a scope wider than once holds."""
    whom = "for all of its agents" if scope == "session" else "for every agent"
    return f"{where(approval.root_session if scope == 'session' else None)}, {whom}, until somebody revokes it"


def where(session: str | None) -> str:
    """Say where a rule holds: in the tree of one root session, or everywhere."""
    return "in every session" if session is None else f"in session {visible(session)}"
