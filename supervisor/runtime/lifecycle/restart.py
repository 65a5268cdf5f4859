"""Restart a run: its attempt has ended badly, and another one follows. The policy is in core/sessions/restarts.py.

During the back-off the run leaves memory, as a passivated run does, and the same alarm wakes it: in this process or,
after a crash, in the process that then owns its tree. Only the due instant ends a back-off. Children go on meanwhile.

Rules
- The decision is made inside the plan: a run that was told to end meanwhile gets its outcome, and no further attempt.
- A restart is not told to the parent. If the run is not restarted, the cause of its outcome says why.
"""

from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.encoding import printable_text
from supervisor.core.sessions.restarts import Ended, next_restart
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.plans.end import Ending
from supervisor.system.logs import FactLog

log = FactLog(__name__)


async def restart_or_end(attempt: Attempt, ending: Ending, failed: frozenset[str]) -> Ending | None:
    """Journal that the run is restarted, and return None; or return the final ending. Raises StoreError."""
    if attempt.spec.restart != "transient" or ending.kind not in ("failed", "stalled"):
        return ending
    stopped_at, late = attempt.stopped_at, attempt.asked_late
    cause, chance = ending.cause or ending.kind, attempt.host.environment.random()
    ended = Ended(kind=ending.kind, cause=cause, failed=failed, stopped_at=stopped_at, asked_late=late)

    def plan(view: View) -> tuple[list[Entry], tuple[e.RunRestarted | None, str]]:
        state = view.session(attempt.session)
        if state.phase != "open":
            return [], (None, "")
        event, why_not = next_restart(state, attempt.spec, ended, attempt.host.clock.now(), chance)
        return [] if event is None else [(attempt.session, event)], (event, why_not)

    restarted, why_not = await attempt.host.journal.append_with_answer(plan)
    if restarted is None:
        return replace(ending, cause=printable_text(f"{cause}; {why_not}")) if why_not else ending
    log.warning("run.restarted", session=attempt.session, number=restarted.number, cause=cause)
    return None
