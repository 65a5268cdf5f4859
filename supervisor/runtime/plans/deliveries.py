"""Plans of deliveries: what a trigger has begun does not begin again, although its session was pruned (R11).

Rules
- Until it is pruned, the session itself tells that a delivery has come. The prune keeps its id, in the same append.
- It is kept in the journal of schedules. If that cannot be read, no trigger begins anything: its sender tries again.
"""

from collections.abc import Iterator
from datetime import datetime

from supervisor.core import events as e
from supervisor.core.errors import SessionConflict
from supervisor.core.ids import SCHEDULES
from supervisor.core.schedules import is_of_trigger
from supervisor.runtime.journal.view import Entry, View
from supervisor.runtime.plans.schedules import timetable
from supervisor.seam import commands as c


def refuse_delivered(view: View, command: c.Start) -> None:
    """Raise SessionConflict for a delivery whose session has begun and was pruned."""
    session = command.session
    if session is not None and view.find_session(session) is None and session in timetable(view).delivered:
        raise SessionConflict(f"session {session} of this delivery has begun before, and was pruned")


def delivery_pruned(view: View, root: str, now: datetime) -> Iterator[Entry]:
    """Yield what a prune keeps of a tree that a trigger has begun."""
    if is_of_trigger(view.session(root).facts.requester):
        yield SCHEDULES, e.DeliveryPruned(at=now, session=root)
