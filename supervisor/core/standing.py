"""Events of standing rules: who added which, out of what, and who took it back (A7). Rules as in core/events.py.

They are the journal of the store itself, under an id that no session can have. The rules that hold are its fold, the
Rulebook (core/session.py).
"""

from typing import Final

from supervisor.core.facts import Event, traits
from supervisor.core.rules import Rule

RULES: Final = "*"
"""Stands for a session where a journal of rules is meant; `check_session_id` refuses it."""


@traits("audited")
class RuleAdded(Event, frozen=True, kw_only=True):
    """A rule holds from now on; `approval` is the one whose decision made it, in the same append (A1)."""

    rule: Rule
    by: str
    approval: str | None = None


@traits("audited")
class RuleRevoked(Event, frozen=True, kw_only=True):
    """A rule, named by its id, holds no more."""

    rule: str
    by: str
