"""The protocol of an attempt's host, and the reason for which an attempt is stopped."""

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TypeVar

import msgspec

from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import StoreError
from supervisor.core.usage import Usage
from supervisor.runtime.attempt.bodies import Bodies
from supervisor.runtime.attempt.jobs import Jobs
from supervisor.runtime.attempt.places import LimitKeeper
from supervisor.runtime.attempt.reservations import BudgetKeeper
from supervisor.runtime.clock.alarm import Alarm
from supervisor.runtime.clock.clock import Clock
from supervisor.runtime.clock.watchdog import Watchdog
from supervisor.runtime.environment import Environment
from supervisor.runtime.journal.hub import Hub
from supervisor.runtime.journal.writer import Journal
from supervisor.runtime.plans.rules import Ruling

AttemptT_contra = TypeVar("AttemptT_contra", contravariant=True)


class StopReason(msgspec.Struct, frozen=True):
    """Why an attempt was stopped."""

    kind: str
    """stalled, cancelled, abandoned: the kind of the outcome. suspended, passivated, blocked: another attempt
    follows."""
    cause: str = ""

    def __str__(self) -> str:
        return f"{self.kind}: {self.cause}"

    @property
    def is_pause(self) -> bool:
        return self.kind in ("suspended", "passivated", "blocked")


class Host(Protocol[AttemptT_contra]):
    """What an attempt needs from the part that runs it: the runner."""

    journal: Journal
    environment: Environment
    clock: Clock
    alarm: Alarm
    watchdog: Watchdog
    hub: Hub
    jobs: Jobs
    rules: Ruling
    asking: MutableMapping[str, Callable[[msgspec.Raw], None]]
    """What checks the arguments that a person gives a call which waits here, by its approval."""
    bodies: Bodies
    only_replays: bool

    @property
    def limits(self) -> LimitKeeper[AttemptT_contra]: ...
    @property
    def budgets(self) -> BudgetKeeper[AttemptT_contra]: ...
    @property
    def is_draining(self) -> bool: ...
    def price(self, usage: Usage) -> Usage: ...
    @property
    def is_closed(self) -> bool: ...
    @property
    def may_be_left(self) -> bool: ...
    @property
    def acting(self) -> AbstractContextManager[None]:
        """Encloses work that a graceful stop waits for (R8)."""

    def start_soon(self, fn: Callable[..., Awaitable[Any]], /, *args: Any) -> None: ...
    def grew_quiet(self, attempt: AttemptT_contra) -> None: ...
    def waits_for_replay(self, attempt: AttemptT_contra) -> None: ...
    def follows(self, attempt: AttemptT_contra) -> None: ...
    def stopped(self, attempt: AttemptT_contra) -> None: ...
    def suspend_tree(self, attempt: AttemptT_contra, error: StoreError) -> None: ...
    def begin_again(self, attempt: AttemptT_contra, why: StoreError) -> None: ...
    def expect(self, session: str) -> None: ...
    def forget(self, session: str) -> None: ...
    def begin(self, session: str, spec: AgentSpec[Any, Any]) -> None: ...
