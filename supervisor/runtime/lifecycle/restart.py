"""Restarts, appended: an attempt has ended, and another follows. What that is worth is in core/restarts.py.

A back-off is a sleep that only its instant ends: the run leaves memory as if it were passivated, and is woken by the
same alarm, here or, after a crash, in whichever process owns its tree then. Its children go on meanwhile.

Rules
- Decided inside the plan: a run that was told to end in the meantime has its outcome, and no further attempt.
- The parent learns of no restart; giving up is said in the cause of the outcome.
"""

from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.encoding import printable
from supervisor.core.restarts import Ended, restart
from supervisor.logs import FactLog
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.plans.end import Ending

log = FactLog(__name__)


async def restart_or_end(attempt: Attempt, ending: Ending, failed: frozenset[str]) -> Ending | None:
    """Append that the run is restarted, and return None; or return the ending that stands. Raises StoreError."""
    if attempt.spec.restart != "transient" or ending.kind not in ("failed", "stalled"):
        return ending
    stopped_at, late = attempt.stopped_at, attempt.asked_late
    cause, chance = ending.cause or ending.kind, attempt.host.environment.random()
    ended = Ended(kind=ending.kind, cause=cause, failed=failed, stopped_at=stopped_at, asked_late=late)

    def plan(view: View) -> tuple[list[Entry], tuple[e.RunRestarted | None, str]]:
        state = view.session(attempt.session)
        if state.phase != "open":
            return [], (None, "")
        event, why_not = restart(state, attempt.spec, ended, attempt.host.clock.now(), chance)
        return [] if event is None else [(attempt.session, event)], (event, why_not)

    restarted, why_not = await attempt.host.journal.append_with_answer(plan)
    if restarted is None:
        return replace(ending, cause=printable(f"{cause}; {why_not}")) if why_not else ending
    log.warning("run.restarted", session=attempt.session, number=restarted.number, cause=cause)
    return None
