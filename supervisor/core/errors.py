"""Every exception of the package, sorted by whose fault it is. Each says what to do next; attributes have the data.
Siblings do not catch each other: `except` names one exception, or a parent above it in this tree.

    SupervisorError
    |-- InvalidInput            the caller: a value that cannot be used as it is
    |   |-- UnknownAgent        ... names an agent or tool that cannot be imported
    |   `-- CursorUnknown       ... is a cursor of another store, or from beyond the end of this one
    |-- NotFound                the caller: names a session, approval, rule or store that is not there
    |-- SessionConflict         the caller: names a session that exists with another agent or input
    |-- TreeOwned               another process holds the tree
    |-- NotEntitled             the caller: a person who may not do this
    |-- NotAuthenticated        the caller: no person has this token
    |-- IllegalEvent            us: an event that the tables forbid; it is raised and changes nothing
    |-- RunError                the agent: raised by `result()` unless the run succeeded
    |   |-- RunFailed           ... it raised, or returned a value that cannot be journaled
    |   |-- RunStalled          ... no sign of progress for its budget
    |   |-- RunCancelled        ... it was cancelled
    |   `-- RunAbandoned        ... it ignored its end, or crashed again and again
    |-- RunBlocked              the code: it cannot follow the run's journal; raised by `outcome()` and `result()`
    |-- StepFailed              the agent: one of its steps raised; journaled, the same in every attempt
    |-- QuestionUnanswered      people: a question got no answer; journaled, the same in every attempt
    |-- LimitExceeded           the agent: a limit of its declaration is reached
    |-- RetryAfter              an endpoint: it is busy, and says for how long; raised by the body of a step
    |-- RunStopping             the agent: it began something new after it was told to stop
    |-- ToolFailed              a tool: says how it failed, keeping its output
    |-- StoreError              the disk
    |   |-- StoreUnreadable     ... corrupt, newer than this program, or not ours; left untouched
    |   |-- StoreRefused        ... a commit was refused cleanly (disk full); nothing is lost, runs are suspended
    |   `-- StoreDied           ... a sync failed: nothing in memory is trusted; start the program again
    `-- ServerError             the server of a remote supervisor
        |-- ServerUnavailable   ... cannot be reached, or the connection broke
        `-- ServerMismatch      ... is not a supervisor with this version of the API

`Suspended` is a BaseException: it unwinds an agent that will be run again, and no `except Exception` may stop it.
"""

import re
from typing import Any


class SupervisorError(Exception):
    """The base of all errors that the package raises on purpose."""


class InvalidInput(SupervisorError, ValueError):
    """A value that cannot be used as it is; the text says which value, and what would be accepted."""


class UnknownAgent(InvalidInput):
    """An agent or tool that cannot be found where its session names it. The session is left unchanged."""


class CursorUnknown(InvalidInput):
    """The cursor belongs to another store, or is beyond the end of this one. Read from the beginning."""


class NotFound(SupervisorError, LookupError):
    """No such session, approval, rule or store."""


class SessionConflict(SupervisorError):
    """The session exists, with another agent or another input; or the id of a message is that of another one."""


class TreeOwned(SupervisorError):
    """Another process runs this tree."""

    def __init__(self, root: str, owner: str) -> None:
        super().__init__(f"session {root} is being run by {owner}; stop that process, or decide and cancel from here")
        self.root = root
        self.owner = owner


class NotEntitled(SupervisorError):
    """A person may not do this (A4). An approval stays pending for people who may decide it."""


class NotAuthenticated(SupervisorError):
    """No person has this token, or no token was given."""


class IllegalEvent(SupervisorError):
    """The tables forbid this event here. It was not applied, and nothing changed."""


class RunError(SupervisorError):
    """The run did not succeed. `kind` says how it ended, `cause` why; `partial` is its partial output, `said`
    what its agent had said."""

    def __init__(self, kind: str, cause: str | None, partial: Any = None, said: str = "") -> None:
        super().__init__(f"{kind}: {cause}" if cause else kind)
        self.kind = kind
        self.cause = cause
        self.partial = partial
        self.said = said
        self.operation: str | None = None
        """Inside an agent: the operation by which the agent learned that the sub-agent failed."""


class RunFailed(RunError):
    """The agent raised, or returned a value that cannot be journaled."""


class RunStalled(RunError):
    """The run was ended by its watchdog."""


class RunCancelled(RunError):
    """The run was cancelled, by a person, its parent, or another program."""


class RunAbandoned(RunError):
    """The run ignored its end, or crashed in too many attempts."""


class RunBlocked(SupervisorError):
    """Today's code cannot follow the run's journal, or that of a run below it. Nothing is lost: the run goes on with
    code that follows it (deploy the old code, or use `ctx.patched` or `versions`), or cancel it.

    `session` is the blocked one, `block` says why and where (supervisor.core.blocking.Block).
    """

    def __init__(self, session: str, block: Any) -> None:
        at = f" at entry {block.entry} of its journal ({block.held})" if block.entry else ""
        line = f"; {block.where}" if block.where else ""
        super().__init__(f"session {session} is blocked{at}: {block.cause}{line}; supervisor show {session}")
        self.session = session
        self.block = block


class StepFailed(SupervisorError):
    """A step raised. `step` names it, `error_type` and `error` are the exception's type and text."""

    def __init__(self, operation: str, step: str, error_type: str, error: str) -> None:
        super().__init__(f"step {step} raised {error_type}: {error}")
        self.operation = operation
        self.step = step
        self.error_type = error_type
        self.error = error


class QuestionUnanswered(SupervisorError):
    """A question got no answer: the agent may go on without one, or let the run fail.

    `reason` is denied (a person, or `--unattended deny`, declined), expired, or withdrawn; `by` and `why` say who
    declined, and with which reason.
    """

    def __init__(self, question: str, reason: str, by: str | None = None, why: str | None = None) -> None:
        who = f" by {by}" if by else ""
        super().__init__(f"{reason}{who}: {why or 'no reason was given'}; the question was: {question}")
        self.question = question
        self.reason = reason
        self.by = by
        self.why = why


class LimitExceeded(SupervisorError):
    """A limit of the agent's declaration is reached; raise the limit there if the agent is right."""


class RetryAfter(SupervisorError):
    """Raised by the body of a step: what it asks is busy. Nothing is journaled. The step waits outside of its work, and
    runs again after so many seconds; until then its limit is closed for all (L4)."""

    def __init__(self, seconds: float, why: str = "") -> None:
        if not isinstance(seconds, int | float) or not seconds >= 0:
            raise InvalidInput(f"RetryAfter takes the seconds to wait, 0 or more, not {seconds!r:.40}")
        super().__init__(f"busy for {seconds:g} s{f': {why}' if why else ''}")
        self.seconds = float(seconds)
        self.why = why


class RunStopping(SupervisorError):
    """The run was told to stop and may begin nothing new that needs a person or a sub-agent."""


class ToolFailed(SupervisorError):
    """Raised by a tool to fail with output: becomes a result of kind `error`."""

    def __init__(self, content: str, **details: Any) -> None:
        super().__init__(content)
        self.content = content
        self.details = details


class StoreError(SupervisorError):
    """The store cannot do what was requested."""


class StoreUnreadable(StoreError):
    """The store is corrupt, newer than this program, not a store, or of an older format while another process has it
    open. It was left untouched."""


class StoreRefused(StoreError):
    """A commit was refused and rolled back (disk full, for example). Make room, then resume; nothing is lost."""


class StoreDied(StoreError):
    """A sync failed or the writer died: nothing in memory is trusted. Start the program again to go on."""


class ServerError(SupervisorError):
    """The server cannot do what was requested."""


class ServerUnavailable(ServerError):
    """The server cannot be reached. `maybe_done`: whether the request may have had an effect all the same."""

    def __init__(self, text: str, *, maybe_done: bool) -> None:
        super().__init__(text)
        self.maybe_done = maybe_done


class ServerMismatch(ServerError):
    """The server is not a supervisor, or its API has another version."""


class Suspended(BaseException):
    """Unwinds an agent whose run will go on in a later attempt. Never catch it; nothing is withdrawn."""


def code_of(kind: type[SupervisorError]) -> str:
    """Return the name of an exception outside Python: its class name in snake case."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", kind.__name__).lower()


def only_error(
    error: BaseException, besides: type[BaseException] | tuple[type[BaseException], ...] = ()
) -> BaseException:
    """Return the one error that a group holds, `besides` those of a type; a group of several as it is."""
    while isinstance(error, BaseExceptionGroup):
        found = [each for each in error.exceptions if not isinstance(each, besides)]
        if len(found) != 1:
            break
        error = found[0]
    return error
