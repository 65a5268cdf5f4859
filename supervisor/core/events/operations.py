"""Events of operations: what an agent asked for, its results, and the background jobs that its calls started.

The rules of core/events apply.
"""

from datetime import datetime
from typing import Literal

from msgspec import Raw

from supervisor.core.encoding import JSON_NULL
from supervisor.core.events.facts import Event, event_traits
from supervisor.core.values import ResultKind, Urgency

WaitKind = Literal["sleep", "timer"]
"""Operations that are in the journal from their start, since they have an instant at which they are due."""


@event_traits("own")
class OperationStarted(Event, frozen=True, kw_only=True):
    """A durable timer began; `due_at` holds in every attempt."""

    operation: str
    kind: WaitKind
    due_at: datetime
    given: int | None = None
    """How many results the agent had been given, since its last save, when it asked for the operation. More results may
    be before this event: one that came in between may have ended the operation."""


@event_traits("own")
class OperationFinished(Event, frozen=True, kw_only=True):
    """An operation other than a call has its result; `error` is (exception type, text) where it failed."""

    operation: str
    kind: str
    value: Raw = JSON_NULL
    error: tuple[str, str] | None = None
    traceback: str = ""
    """Where a step raised, for people; no agent reads it (runtime/attempt/tracebacks.py)."""
    child: str | None = None
    message: str | None = None
    """The message that a `receive` took."""
    given: int | None = None
    """As in OperationStarted."""


@event_traits("told", "unwinding")
class OperationAbandoned(Event, frozen=True, kw_only=True):
    """A scope of the agent's own ended the operation. For a call this is its `interrupted` result, and `content` its
    output so far; an approval that it was waiting for is withdrawn by it."""

    operation: str
    kind: str
    approval: str | None = None
    """The approval that is withdrawn by it."""
    content: str = ""
    details: Raw = Raw(b"{}")


class OperationRecalled(Event, frozen=True, kw_only=True):
    """After a restart, the agent asked again for an operation that has its result from before it: this is that result's
    place in the order."""

    operation: str
    given: int | None = None
    """As in OperationStarted."""


@event_traits("audited", "own", "of its row")
class ToolCallRequested(Event, frozen=True, kw_only=True):
    """A call is journaled, with its approval where a person must decide it: one event, one append (A1)."""

    operation: str
    approval: str | None = None
    tool: str
    arguments: Raw
    digest: str
    idempotent: bool = False
    """Whether it may run again if it is lost in a crash."""
    patterns: tuple[str | None, ...] = ()
    """Patterns that may be granted for more than once, for the session and for always (core/calls/rules.py); None:
    exactly these arguments."""
    rule: str | None = None
    """The rule that said whether a person is asked: its id, or where it comes from."""
    expires_at: datetime | None = None
    secret: tuple[str, ...] = ()
    """Names of the arguments that only the effect may see (core/approvals/masking.py)."""
    editable: bool = True
    """Whether it may be approved with other arguments."""
    command: str | None = None
    """The name of the argument that is a shell command (core/calls/rules.py)."""
    claims: tuple[str, ...] = ()
    """Names of the arguments that are the caller's own words about the call. Rules do not see them
    (core/calls/rules.py)."""
    defaults: tuple[str, ...] = ()
    """Names of the arguments that have the default value of the tool's parameter, if a person is asked."""
    schema: Raw = JSON_NULL
    """JSON schema that edited arguments must fit, in the words that `schemas.misfit` knows: so every process refuses an
    edit that does not fit, without the tool. null: the process that runs the call checks alone."""
    parameters: Raw = JSON_NULL
    """JSON schema of those arguments of which their values do not say enough, for people who edit them. Nothing is
    checked against it."""
    default_values: Raw = JSON_NULL
    """The default values of other arguments, by name: an edit may leave these out."""
    why: str = ""
    """Why a person is asked, in our words: the rule that asks, or what no rule could allow."""
    note: str = ""
    """What the person should know, in our words: that the same call was denied just before."""
    because: str = ""
    """The caller's own words to the person who decides. They are no part of the digest, of rules, or of a
    comparison."""
    urgency: Urgency | None = None
    """The most urgency that the caller claims. It is none of these either."""
    paths: tuple[str, ...] = ()
    """Names of the arguments that are paths (core/calls/paths.py)."""
    edits: tuple[str, ...] = ()
    """Names of those that are files which the call edits (core/calls/edits.py)."""
    preview: float | None = None
    """Seconds for which cards wait for evidence of its preview; None: it has none, or no person is asked."""
    allowances: tuple[str, ...] = ()
    """The ids of the allowances that let it run: they do so until its effect, unless they are revoked."""
    uses: int = 0
    minutes: int = 0
    """The allowances that are offered first: so many calls, and so many minutes; 0: none of that kind."""
    given: int | None = None
    """As in OperationStarted."""


@event_traits("audited", "told", "own", "of its row")
class ToolCallStarted(Event, frozen=True, kw_only=True):
    """Executing: committed before the effect begins. `process` and `process_started_at` name its process (T9), `child`
    the session of the sub-agent that it is a call of: committed with that."""

    operation: str
    host: str
    pid: int
    process: int | None = None
    process_started_at: float | None = None
    child: str | None = None


@event_traits("audited", "told", "own", "last append")
class ToolCallFinished(Event, frozen=True, kw_only=True):
    """The one result of a call."""

    operation: str
    kind: ResultKind
    content: str
    value: Raw = JSON_NULL
    details: Raw = Raw(b"{}")
    traceback: str = ""
    """Where the tool raised, for people; no agent reads it (runtime/attempt/tracebacks.py)."""


@event_traits("audited", "not copied")
class JobStarted(Event, frozen=True, kw_only=True):
    """A call began a background job: committed with its `executing`, before the job begins (T6).

    Pid and start time identify the job's process, and the warden that guards it, on `host` only. `keep`: it
    does not end with its root session. `notify`: its session gets a message when it has ended by itself.
    """

    job: str
    operation: str
    command: str
    host: str
    process: int
    process_started_at: float | None
    guard: int
    guard_started_at: float | None
    log: str
    keep: bool = False
    notify: bool = False


@event_traits("audited", "not copied")
class JobEnded(Event, frozen=True, kw_only=True):
    """A background job is over: journaled in its session once.

    `exited`: by itself; `ended`: by us, because of `by`; `failed`: it could not begin; `lost`: it is gone, and how it
    ended is not known. `duration` is seconds from its beginning.
    """

    job: str
    how: Literal["exited", "ended", "failed", "lost"]
    exit_code: int | None = None
    signal: int | None = None
    duration: float | None = None
    by: str | None = None
