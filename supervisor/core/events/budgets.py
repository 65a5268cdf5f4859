"""Events of usage and budgets: what was spent, and how much may be.

The rules of core/events apply. What a budget means is in core/budgets.py; the question about one is a ToolCallRequested
under a reserved id (core/sessions/asides.py).
"""

from operator import attrgetter

from supervisor.core.budgets import Scope
from supervisor.core.events.facts import Event, event_traits
from supervisor.core.usage import Usage


@event_traits("own", "no progress", "not copied", "last append", "unwinding")
class UsageSpent(Event, frozen=True, kw_only=True):
    """Requests to a model were paid, with the price that they had then. It is in the append of the result of the step
    or call that made them, or alone if there is no result. `operation`: that step or call, or `ctx.used`."""

    usage: Usage
    operation: str = ""


@event_traits("audited", "told", "not copied", "no progress")
class BudgetRaised(Event, frozen=True, kw_only=True):
    """The limits of a budget are at least these from now on. `approval`: the one whose decision raised it; None: an
    operator did. `scope`: the budget of the tree, or of the run; None: both."""

    by: str
    usd: float | None = None
    tokens: int | None = None
    requests: int | None = None
    calls: int | None = None
    scope: Scope | None = None
    approval: str | None = None


@event_traits("told", "trouble", "not copied", "no progress")
class BudgetNoticed(Event, frozen=True, kw_only=True):
    """Much of a budget is used, or requests are not in its sums, since their price or tokens are not known: people are
    told once for each set of limits."""

    scope: Scope
    text: str
    is_unknown: bool = False
    """Whether it tells of what is not known."""


@event_traits("not copied", "no progress", answers=attrgetter("key"))
class BudgetAnswered(Event, frozen=True, kw_only=True):
    """A run that sleeps until a budget is decided, or until it has a place of a limit, goes on, and looks again. `key`:
    what it waits for."""

    key: str
