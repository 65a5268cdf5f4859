"""Allowances: rules that allow the next so many calls, or those of some time, and then end by themselves (A19).

    decision -> rule, in the journal of the store -> each call's request, with RuleUsed, in one append -> ended

Rules
- A use is spent in the append that lets the call run: of its request, or of the decision that releases it. The plan
  of that append sees all uses that any process has committed, so the last one is never spent twice. A plan that finds
  none left asks.
- A use is spent for good. A call that is lost or denied later has used one, and a replay uses none. A call that is
  asked for again, by a restart, uses another one.
- What is left is asked when the call is: until its effect it keeps what its request has used, unless that is revoked.
  Denies are looked at again.
- A clock that is before the latest instant in the journal of the root was set back: until it is there again, no
  allowance with an instant holds.
- The uses of an allowance of a session are counted in the journal of that root session, and go with its tree.
- An allowance in code may end at an instant. No store could count its uses: a program that gives it some is refused.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.calls.rules import Rule
from supervisor.core.errors import InvalidInput
from supervisor.core.ids import RULES
from supervisor.runtime.journal.view import Entry, View

NOT_COUNTED: Final = (
    "on Temporal no calls are counted, so an allowance has no `uses` there: give it an end by `until` or `minutes`, or "
    "approve the calls once"
)
_NONE: Final[Mapping[str, int]] = {}


def used(view: View, rule: Rule) -> int:
    """Return how many calls have used an allowance; all of them, if the journal that counts them is gone or damaged."""
    if rule.uses is None:
        return 0
    counting = view.find_readable(rule.session or RULES)
    return rule.uses if counting is None or rule.id is None else counting.uses.get(rule.id, 0)


def holds(view: View, rule: Rule, now: datetime, root: str | None = None, planned: Mapping[str, int] = _NONE) -> bool:
    """Whether a rule lets a call run that is asked for now in the tree of a root. `planned`: uses that this plan has
    spent already."""
    if not rule.is_allowance:
        return True
    has_left = rule.uses is None or used(view, rule) + planned.get(str(rule.id), 0) < rule.uses
    if rule.until is None or not has_left:
        return has_left
    known = view.find_readable(rule.session or root or RULES)
    return rule.has_time(now, None if known is None else known.latest)


def in_order(
    view: View, rules: Sequence[Rule], now: datetime, root: str, kept: Collection[str] = ()
) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """Return the rules that hold in the tree of a root, those that spend nothing first, and the allowances that have
    ended. `kept`: the keys of those that a call has used, and keeps until its effect."""
    if not any(rule.is_allowance for rule in rules):
        return tuple(rules), ()
    standing, ended = list[Rule](), list[Rule]()
    for rule in rules:
        (standing if key_of(rule) in kept or holds(view, rule, now, root) else ended).append(rule)
    standing.sort(key=lambda rule: (rule.uses is not None, rule.until is not None))
    return tuple(standing), tuple(ended)


def key_of(rule: Rule) -> str:
    """Return what a call remembers of an allowance that it has used: its id, or what a rule in code says of itself."""
    return rule.id or f"{rule.origin}: {rule.tool} {rule.pattern} {rule.until}"


def uses_of(rules: Iterable[Rule], session: str, operation: str, now: datetime) -> Iterator[Entry]:
    """Yield what spends one use of each of these rules for a call."""
    for rule in rules:
        if rule.uses is not None and rule.id is not None:
            yield rule.session or RULES, e.RuleUsed(at=now, rule=rule.id, session=session, operation=operation)


def listed(view: View, rule: Rule, now: datetime) -> Rule:
    """Return a rule as it is listed: with how often it was used, and whether it has ended."""
    if not rule.is_allowance:
        return rule
    return replace(rule, used=used(view, rule), ended=not holds(view, rule, now))


def check_end(uses: int | None, until: datetime | None, now: datetime, *, is_counted: bool = True) -> None:
    """Raise InvalidInput for an allowance that could not begin. `is_counted`: whether uses are counted here."""
    if uses is not None and not is_counted:
        raise InvalidInput(NOT_COUNTED)
    if until is not None and until <= now:
        raise InvalidInput(f"until={until:%Y-%m-%d %H:%M:%S %Z} is over: give a later instant, or approve once")


def check_countable(rules: Iterable[Rule]) -> None:
    """Raise InvalidInput for a rule in code that would have to be counted."""
    for rule in rules:
        if rule.uses is not None:
            raise InvalidInput(
                f"{rule} has uses={rule.uses}, which no store counts for a rule in code: add it by add_rule, or "
                "approve a call with uses"
            )
