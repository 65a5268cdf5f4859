"""Plans that retry: the new runs of a tree that ended badly begin in one append (core/sessions/retrying.py)."""

from collections.abc import Iterator
from datetime import datetime

from supervisor.core import events as e
from supervisor.core.errors import InvalidInput
from supervisor.core.sessions.retrying import done_again, was_cut_off_by_its_parent, why_not_retry
from supervisor.runtime.journal.view import Entry, View


def retry_events(view: View, root: str, by: str, now: datetime) -> Iterator[Entry]:
    """Yield the events that begin the new run of an idle root, and of the sub-agents that are run again with it.

    Raises InvalidInput, and says what to do instead.
    """
    if (why := why_not_retry(view.session(root))) is not None:
        raise InvalidInput(why)
    left = [root]
    while left:
        session = left.pop()
        state = view.session(session)
        cut_off = [name for name in state.children if was_cut_off_by_its_parent(view.session(name))]
        found = done_again(state, [row.event for row in view.store.journal(session)], by, cut_off)
        yield session, e.RunStarted(at=now, input=state.input, again=found)
        left += found.children
