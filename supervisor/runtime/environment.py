"""The environment of a runtime: what it takes from outside itself, in one object that can be another one.

The name is that of the same seam in storage engines (`Env` in LevelDB and RocksDB). This environment is an ordinary
process. Another one may give instants and ids that are the same in each run, and run the bodies of tools and steps
elsewhere: in a worker process, on another machine, as activities of a workflow engine.

Rules
- Nothing else in the runtime asks for the wall time, a new id, a random number, the user or the working directory.
  Budgets and deadlines are counted on the event loop's own clock, which its owner chooses.
- Agents run in the runtime's loop, wherever bodies run. A body sees of its run only what it is called with.
- Which process writes an entry (host, pid) is a fact about that process, and no choice of its environment.
"""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from supervisor.core import ids
from supervisor.runtime.clock.clock import Clock
from supervisor.system.identity import current_user, working_directory


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """What a call or a step does: a function, and what it is called with.

    `args` begins with the ToolContext where a tool takes one. Session, run and operation together name the effect: they
    are the same in each attempt. A step that failed and is taken again by a restart or a retry has the same name, too.
    """

    kind: Literal["call", "step"]
    session: str
    run: int
    operation: str
    fn: Callable[..., Awaitable[Any]]
    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any]


class Environment:
    """An ordinary process. Made inside the event loop that the runtime runs in."""

    def __init__(self) -> None:
        self.clock = Clock()

    def new_session_id(self) -> str:
        """Return the id of a session, or of a message."""
        return ids.new_session_id()

    def new_approval_id(self, root: str) -> str:
        """Return the id of an approval in the tree of a root session. It matches APPROVAL_ID, and cannot be guessed."""
        return ids.new_approval_id(root)

    def new_rule_id(self) -> str:
        return ids.new_rule_id()

    def random(self) -> float:
        """Return a number in [0, 1): what an agent asks for, and what spreads restarts. It keeps no secret."""
        return random.random()  # noqa: S311 # no secret

    def user(self) -> str:
        """Return on whose behalf this process acts where a caller names no person."""
        return current_user()

    def working_directory(self) -> str:
        """Return the folder that sessions which begin here remember."""
        return working_directory()

    async def run_body(self, body: Body) -> Any:
        """Run a body, and return or raise what it does.

        It is cancelled when the body's deadline has passed, or when its run is to end. It then ends when the body has
        ended or can do nothing more: it raises the cancellation, or returns what the body returned all the same.
        """
        return await body.fn(*body.args, **body.kwargs)
