"""The environment of a runtime: everything that it takes from outside itself, in one object that can be replaced.

Storage engines have the same seam (`Env` in LevelDB and RocksDB). This environment is an ordinary process. Another
environment may return the same instants and ids in each run. It may also run the bodies of tools and steps elsewhere:
in a worker process, on another machine, as activities of a workflow engine.

Rules
- Only the environment reads the wall time, makes ids and random numbers, and knows the user and the working directory.
  Budgets and deadlines are counted on the event loop's clock, which the program that runs the loop chooses.
- Agents run in the runtime's loop, wherever bodies run. A body sees only the arguments with which it is called.
- An entry names the process that wrote it (host, pid). That is a fact about the process, not its environment's choice.
"""

import random
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from inspect import isawaitable
from types import CoroutineType
from typing import Any, Final, Literal

import msgspec

from supervisor.core import ids
from supervisor.core.calls.folders import folder_of_call
from supervisor.core.calls.rules import Rule
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.declarations.signatures import is_plain
from supervisor.core.errors import InvalidInput
from supervisor.core.values import Policy
from supervisor.runtime.clock.clock import Clock
from supervisor.system.forks import THIS_PROCESS, end_copy
from supervisor.system.identity import current_user, find_folder, working_directory
from supervisor.system.settling import files_of_ours, settle

_NOTHING: Final = nullcontext()


class Ruled(msgspec.Struct, frozen=True, kw_only=True):
    """What is checked once more where the body of a call runs elsewhere: only that machine knows where the paths of the
    call lead. `rules`: those about the call. The rest: as in a CallContent, and as for `why_not_begun`."""

    rules: tuple[Rule, ...]
    root: str
    own: Policy
    tool: str
    folder: str
    paths: tuple[str, ...]
    edits: tuple[str, ...] = ()
    command: str | None = None
    claims: tuple[str, ...] = ()
    secret: tuple[str, ...] = ()
    is_decided: bool
    was_ruled: bool


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """The body of a call or a step: a function and its arguments.

    `args` begins with the ToolContext if the tool takes one. Session, run and operation together name the effect, and
    are the same in each attempt. A failed step that a restart or a retry runs again keeps its name, too.
    """

    kind: Literal["call", "step"]
    name: str
    """The name of the tool or of the step."""
    session: str
    run: int
    operation: str
    timeout: float | None = None
    """The deadline of a call in seconds; None if the tool itself keeps one."""
    is_idempotent: bool = False
    """Whether a call that was lost may run again."""
    queue: str | None = None
    """The queue of workers that run it, where bodies run elsewhere; None: any worker."""
    inactivity_timeout: float
    """Seconds after which a step that shows no progress has stalled, where bodies run elsewhere."""
    stall: Callable[[str], None]
    """Stop the run, with the cause, because the step has stalled. The caller of the body is cancelled by it."""
    ruled: Ruled | None = None
    recheck: Callable[[tuple[Rule, ...]], Awaitable[Ruled | None]] | None = None
    """Check a call again by other rules that are kept elsewhere, where they are compared just before the effect. Return
    what is checked there; raise Denied if they do not let the call begin."""
    fn: Callable[..., Any]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any]
    in_thread: Callable[[Callable[[], Any]], Awaitable[Any]]
    """Run a function without async in a thread, where bodies run in this process."""


class Environment:
    """The environment of an ordinary process. Make it inside the event loop in which the runtime runs."""

    runs_elsewhere = False
    """Whether bodies run in other processes, which keep the deadlines of calls and watch over steps. Then a call counts
    as executing before its body is handed over, also if its tool starts a process."""

    most_live: int | None = None
    """How many sessions of a tree may be in memory at a time; None: as many as the agents allow."""
    claims_decisions = False
    """Whether a decision is claimed elsewhere before it comes here, and an expiry by `claim_expiry`: the first claim
    counts. Then a decision that comes was made in time."""

    takes_commands_here = True
    """Whether commands are given in this process. Then it refuses those of a process that a supervised call has started
    (A4); a process that sends a command elsewhere has checked that itself."""

    def __init__(self) -> None:
        self.clock = Clock()

    def new_session_id(self) -> str:
        """Return a new id, for a session or a message."""
        return ids.new_session_id()

    def new_approval_id(self, root: str) -> str:
        """Return a new id for an approval in the tree of a root session. It matches APPROVAL_ID and is unguessable."""
        return ids.new_approval_id(root)

    def new_rule_id(self) -> str:
        return ids.new_rule_id()

    def random(self) -> float:
        """Return a number in [0, 1), for `ctx.random()` and to spread restarts in time. It is not for secrets."""
        return random.random()  # noqa: S311 # no secret

    def user(self) -> str:
        """Return the person on whose behalf this process acts if a caller names none."""
        return current_user()

    def working_directory(self) -> str:
        """Return the working directory that new sessions journal."""
        return working_directory()

    def find_folder(self, named: str, base: str) -> str:
        """Return the absolute path, without links, of a folder that a caller chose for a session; a relative path is
        below `base`. Raises InvalidInput if there is no such folder."""
        return find_folder(named, base)

    def folder_of_agent(self, named: str | None, base: str) -> str:
        """Return the folder of a session whose agent declares one, below `base`. If there is none, the session is
        started all the same, and its agent finds out."""
        if named is None:
            return base
        try:
            return self.find_folder(named, base)
        except InvalidInput:
            return folder_of_call(base, named)

    def settle(self, paths: Iterable[str]) -> Mapping[str, str]:
        """Return where absolute paths lead now, as far as this process can find out (core/calls/paths.py)."""
        return settle(paths)

    def files_of_ours(self) -> Collection[str]:
        """Return our own files, which no rule with a pattern covers."""
        return files_of_ours()

    def check_size(self, value: Any, what: str) -> None:
        """Raise InvalidInput, which names `what`, if a value is too large for where the journal is kept."""

    def why_too_large(self, arguments: msgspec.Raw, name: str) -> str | None:
        """Return why the arguments of a call of `name` are too large to reach it; None if they are not. No person is
        asked about such a call."""
        return None

    def begin_trace(self, agent: str) -> str | None:
        """Return the trace context (W3C `traceparent`) that a new root session journals; None without traces."""
        return None

    def continue_trace(self, agent: str, above: str | None) -> str | None:
        """Return the trace context that a new sub-agent's session journals. `above`: that of its parent."""
        return above

    def attempting(self, session: str, why_left: Callable[[], str | None]) -> AbstractContextManager[None]:
        """Return a context that encloses an attempt. `why_left` says at its end why it was stopped, if it was."""
        return _NOTHING

    is_former = False
    """Whether this is a workflow that began before rules released the calls that wait (runtime/plans/release.py). Each
    replay of it must make the same journal, so whatever has changed in journals since does not hold in it."""

    def agent_to_begin(self, agent: AgentSpec[Any, Any], session: str, run: int) -> AgentSpec[Any, Any]:
        """Return an agent at the version with which a run begins: today's."""
        return agent

    def takes_patch(self, session: str, run: int, name: str) -> bool:
        """Return whether a run takes the path of a named change of its code, where its journal does not say."""
        return True

    def keeps_budget(self, session: str, run: int) -> bool:
        """Return whether the budget of an agent's code bounds an attempt of this run."""
        return True

    shares_rules = False
    """Whether rules are kept elsewhere, too, and `read_rules` reads them."""

    async def read_rules(self, call: str = "", *, age_seconds: float = 0.0) -> tuple[Rule, ...]:
        """Read the rules that are kept elsewhere. `call`: the session, the number of the run and the operation of the
        call for which they are read. `age_seconds`: how old they may be, since the body of the call compares them."""
        return ()

    async def settle_elsewhere(self, paths: Sequence[str]) -> Mapping[str, str] | None:
        """Return where absolute paths lead on a machine that runs bodies; None if that is this one (`settle`)."""
        return None

    async def claim_expiry(self, approval: str) -> bool:
        """Claim an approval that is due, and return whether it expires now. If not, a decision on it is on its way."""
        return True

    async def run_body(self, body: Body) -> Any:
        """Run a body: return its result, or raise its exception.

        The runtime cancels this call when the body's deadline has passed or its run ends. It then raises the
        cancellation, or returns the body's result if the body finished all the same. In this process the runtime does
        not wait longer than GRACE_SECONDS (runtime/attempt/bodies.py). Elsewhere the call waits until the body has
        ended or is left there.
        """
        process = THIS_PROCESS.pid
        try:
            if is_plain(body.fn):
                result = await body.in_thread(partial(body.fn, *body.args, **body.kwargs))
            else:
                result = body.fn(*body.args, **body.kwargs)
            return await result if type(result) is CoroutineType or isawaitable(result) else result
        finally:
            end_copy(process)
