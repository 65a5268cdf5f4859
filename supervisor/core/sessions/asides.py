"""Asides: questions that no agent asked, about its budget. And what a session knows of its budgets.

Theory: an agent's path must not depend on its budget. So the question about one is no operation: it has a record under
a reserved id, in a map of its own, with the table of the operations. Who asks for pending approvals, decides,
withdraws, reminds or shows reads both maps. Replay order, save, restart, retry and fork read operations only.

A budget of a run counts from the beginning of that run, and what has raised it counts for that run. A retry goes on
with the run.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.budgets import ASIDE, KINDS, Scope, scope_of
from supervisor.core.events import advance
from supervisor.core.events.kinds import CALL
from supervisor.core.sessions.machine import MOVES_OPERATION, OPERATION
from supervisor.core.sessions.operations import Operation

Raises = Mapping[Scope, Mapping[str, float]]
NO_ASIDES: Final[Mapping[str, Operation]] = MappingProxyType({})


class Budgeting(msgspec.Struct, frozen=True, kw_only=True):
    """What a session knows of its budgets. Replaced, never changed."""

    asides: Mapping[str, Operation] = NO_ASIDES
    """Its questions, by their ids. They are few, and stay."""
    raised: Raises = MappingProxyType({})
    noticed: frozenset[str] = frozenset()
    """What people were told of, until a limit is raised."""

    def pending(self, scope: Scope) -> str | None:
        """Return the question about a budget that waits for a person."""
        return next(
            (name for name, each in self.asides.items() if each.pending_approval and scope_of(name) == scope), None
        )

    def after(self, event: Any, length: int) -> "Budgeting":
        """Return what is known after an event of a budget. Raises IllegalEvent."""
        match event:
            case e.BudgetRaised():
                scopes: tuple[Scope, ...] = ("tree", "run") if event.scope is None else (event.scope,)
                more = {scope: _larger(self.raised.get(scope, {}), event) for scope in scopes}
                return replace(self, raised={**self.raised, **more}, noticed=frozenset())
            case e.BudgetNoticed():
                return replace(self, noticed=self.noticed | {noticed_as(event.scope, is_unknown=event.is_unknown)})
            case e.RunStarted(again=None):
                rest = {scope: limits for scope, limits in self.raised.items() if scope != "run"}
                kept = frozenset(each for each in self.noticed if not each.startswith("run"))
                return replace(self, raised=rest, noticed=kept)
            case _:
                return replace(self, asides={**self.asides, event.operation: _moved(self.asides, event, length)})


NO_BUDGETING: Final = Budgeting()


def noticed_as(scope: Scope, *, is_unknown: bool) -> str:
    return f"{scope} unknown" if is_unknown else scope


OF_BUDGETS: Final = frozenset({e.BudgetRaised, e.BudgetNoticed})


def is_of_budget(event: Any) -> bool:
    """Whether an event is about a budget, or a question about one."""
    kind = type(event)
    return kind in OF_BUDGETS or (kind in MOVES_OPERATION and event.operation.startswith(ASIDE))


def _larger(known: Mapping[str, float], event: e.BudgetRaised) -> dict[str, float]:
    given = {kind: limit for kind in KINDS if (limit := getattr(event, kind)) is not None}
    return {**known, **{kind: max(limit, known.get(kind, 0)) for kind, limit in given.items()}}


def _moved(asides: Mapping[str, Operation], event: Any, length: int) -> Operation:
    old = asides.get(event.operation)
    state = advance(OPERATION, "" if old is None else old.state, event)
    return (old or Operation(state="", kind=CALL, begun=length)).moved(state, event, length)
