"""The environment of a runtime inside a workflow: time, ids and chance are the workflow's, and bodies are activities.

Rules
- What is known outside of the workflow (rules, claims) is asked of a worker, by an activity (worker/namespace.py).
- A folder is not looked for here: it is one of the machine on which a call runs.
"""

from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import anyio
import msgspec
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from supervisor.core.calls.folders import folder_of_call
from supervisor.core.calls.rules import Rule
from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.encoding import to_json
from supervisor.core.errors import InvalidInput
from supervisor.core.ids import approval_route
from supervisor.runtime.clock.clock import Clock
from supervisor.runtime.environment import Body, Environment
from supervisor.runtime.lifecycle.attempts import Attempts
from supervisor.temporal.rulebook import RuleChange
from supervisor.temporal.wire import (
    ADD_RULE,
    BARE_CLAIM,
    CLAIMED,
    ONCE,
    READ_RULES,
    SETTLE,
    Start,
    check_size,
    decision_id,
    from_wire,
    to_wire,
)
from supervisor.temporal.workflow.bodies import TreeBodies
from supervisor.temporal.workflow.bridge import wait_for
from supervisor.temporal.workflow.known import Known
from supervisor.temporal.workflow.missing import AgentMissing

NEWS: Final = "supervisor.2"
"""The mark of a workflow that began when what `Environment.is_former` says was new, and decisions were claimed: it was
made before all else."""
FIRST_VERSION: Final = "1"
"""The version of an agent that names none: its runs are not marked."""
LETTERS: Final = "abcdefghijklmnopqrstuvwxyz234567"


class WorkflowClock(Clock):
    """The clock of a workflow, which stands still between two of its steps."""

    def __init__(self) -> None:
        super().__init__()
        self._measured = 0

    def now(self) -> datetime:
        return workflow.now()

    def duration(self) -> float:
        """Return an instant of a clock that counts how often it is read: it is the same in each replay."""
        self._measured += 1
        return self._measured * 1e-6


class WorkflowEnvironment(Environment):
    """Make it inside the workflow. `attempts` returns those of the runtime that has this environment, once it runs.
    `lost_after`: seconds without a sign of life after which a worker counts as lost."""

    runs_elsewhere = True
    takes_commands_here = False
    claims_decisions = True
    shares_rules = True
    most_live = 1000

    def __init__(self, start: Start, attempts: Callable[[], Attempts], lost_after: float) -> None:
        self.clock = WorkflowClock()
        self.has_signals = start.has_signals and not (workflow.unsafe.is_replaying() and workflow.patched(NEWS))
        """Whether decisions are signals that nothing claims, and the rules travel. The start says it, so that it takes
        no event. A worker of former code knows nothing of it, and has marked what it began."""
        self.is_former = not self.has_signals and not workflow.patched(NEWS)
        self.rules = Known(start)
        self.is_decided: Callable[[str], bool] = lambda _: False
        """Whether a decision on an approval that was made in time waits to be done."""
        self.missing: AgentMissing | None = None
        """The version of a run that this worker lacks: it leaves the tree to another one."""
        self.bodies = TreeBodies(attempts, lost_after, start.largest, self.rules if self.has_signals else None)
        self._attempts = attempts
        self._cwd = start.cwd
        self._largest = start.largest
        self._has_marks = start.has_marks
        self._bounded = Counter[tuple[str, int]]()
        self._rules_added: anyio.Event | None = None
        """Set when the rules that decisions have made are in the namespace; None if there are none under way."""

    def agent_to_begin(self, agent: AgentSpec[Any, Any], session: str, run: int) -> AgentSpec[Any, Any]:
        """See Environment. In a replay it is the version that the run began with: a marker names it, unless it is the
        one that an agent has which names none. Raises AgentMissing if this worker lacks it."""
        if not self._has_marks:
            return agent

        def is_marked(version: str) -> bool:
            return version != FIRST_VERSION and workflow.patched(f"version {session} {run} {version}")

        if not workflow.unsafe.is_replaying():
            is_marked(agent.version)
            return agent
        known = agent.version, *agent.versions
        began = next(filter(is_marked, known), FIRST_VERSION)
        if began not in known:
            text = f"agent {agent.name} has only {', '.join(known)}, and a run of it began with another version"
            self.missing = AgentMissing(agent.name, f"{text}: declare the old code in `versions`")
            self._attempts().note_change()  # an agent may take the error for one of its own
            raise self.missing
        return agent.at_version(began)

    def takes_patch(self, session: str, run: int, name: str) -> bool:
        """See Environment. In a replay a marker says whether the run took the path. Code may forget the change later:
        so the marker is a deprecated one from the beginning, which code need not ask for."""
        if not self._has_marks:
            return True
        patch = f"patch {session} {run} {name}"
        if workflow.unsafe.is_replaying():
            return workflow.patched(patch)
        workflow.deprecate_patch(patch)
        return True

    def keeps_budget(self, session: str, run: int) -> bool:
        """See Environment. A marker says it, for each attempt in this workflow: what began before the agent's code had
        a budget goes on without one. A tree of former code has none."""
        self._bounded[session, run] += 1
        mark = f"budget {self._bounded[session, run]}"
        return self._has_marks and self.takes_patch(session, run, mark)

    def new_session_id(self) -> str:
        return self._random(22)

    def new_approval_id(self, root: str) -> str:
        return approval_route(root) + self._random(26)

    def new_rule_id(self) -> str:
        return self._random(8)

    def _random(self, length: int) -> str:
        return "".join(workflow.random().choices(LETTERS, k=length))

    def random(self) -> float:
        return workflow.random().random()

    def user(self) -> str:
        return "supervisor"

    def working_directory(self) -> str:
        return self._cwd

    def settle(self, paths: Iterable[str]) -> Mapping[str, str]:
        """Settle nothing: a workflow sees no disk. See `settle_elsewhere`."""
        return {}

    async def settle_elsewhere(self, paths: Sequence[str]) -> Mapping[str, str]:
        """See Environment. The worker that runs the body does it once more (worker/bodies.py)."""
        return dict(await _ask_worker(SETTLE, [*paths])) if paths else {}

    def files_of_ours(self) -> Collection[str]:
        return ()

    def find_folder(self, named: str, base: str) -> str:
        path = folder_of_call(base, named)
        if not path.startswith("/"):
            raise InvalidInput(f"the folder {named!r} is relative to one that is not known; write an absolute path")
        return path

    def check_size(self, value: Any, what: str) -> None:
        check_size(to_json(value, what), what, self._largest)

    def why_too_large(self, arguments: msgspec.Raw, name: str) -> str | None:
        """See Environment. Former code has asked about such a call: each replay must, too."""
        if self._has_marks:
            try:
                check_size(arguments, f"the call of {name}", self._largest)
            except InvalidInput as refused:
                return str(refused)
        return None

    async def read_rules(self, call: str = "", *, age_seconds: float = 0.0) -> tuple[Rule, ...]:
        """See Environment. It is no local activity: a replay gets the results of several of those at once, which came
        one after the other the first time, and would then write the memo less often."""
        while self._rules_added is not None:
            await self._rules_added.wait()
        named = f"rules {call}" if call and self._has_marks else None
        if not self.has_signals:
            return tuple(from_wire(each, Rule) for each in await _ask_worker(READ_RULES, named=named))
        if not self.rules.is_younger_than(age_seconds):
            at = workflow.now()
            self.rules.take(await _ask_worker(READ_RULES, True, named=named), at)
        return self.rules.rules

    async def add_rule(self, rule: Rule, by: str) -> str:
        """Add a rule that a decision has made to those of the namespace. Return the id of the rule that stands for it.
        One at a time."""
        assert self._rules_added is None, "decisions are made one after the other"
        self._rules_added = anyio.Event()
        try:
            change, at = to_wire(RuleChange(by=by, at=workflow.now(), rule=rule)), workflow.now()
            if not self.has_signals:
                return str(await _ask_worker(ADD_RULE, change))
            added = await _ask_worker(ADD_RULE, change, True)
            self.rules.take(added["rules"], at)
            return str(added["id"])
        finally:
            self._rules_added.set()
            self._rules_added = None

    async def claim_expiry(self, approval: str) -> bool:
        """See Environment. A decision that was made in time and has come before the timer, or with it, counts. Former
        code claims the expiry: the claim may be this tree's own, which has moved to a new workflow before it could
        journal that the approval has expired."""
        if self.has_signals or self.is_decided(approval):
            return not self.is_decided(approval)
        with anyio.CancelScope(shield=True):  # a bare await in a cancelled scope would not return; the server bounds it
            try:
                await workflow.start_child_workflow(
                    BARE_CLAIM,
                    id=decision_id(approval),
                    id_reuse_policy=ONCE,
                    parent_close_policy=workflow.ParentClosePolicy.ABANDON,
                    memo={"decision": {"kind": "expired"}},
                )
                return True
            except WorkflowAlreadyStartedError:
                pass
        return bool(await _ask_worker(CLAIMED, approval) == "expired")

    def run_body(self, body: Body) -> Coroutine[Any, Any, Any]:
        return self.bodies.run(body)


async def _ask_worker(name: str, *given: Any, named: str | None = None) -> Any:
    """Have a worker do something in the namespace that needs no mark, as soon as one can. Return what it returns.
    `named`: the id of the activity; None: a number."""
    handle = workflow.start_activity(
        name,
        args=given,
        activity_id=named,
        start_to_close_timeout=timedelta(seconds=20),
        retry_policy=RetryPolicy(initial_interval=timedelta(seconds=0.2), maximum_interval=timedelta(seconds=5)),
    )
    cancellation = await wait_for(handle)
    if cancellation is not None:
        raise cancellation
    return handle.result()
