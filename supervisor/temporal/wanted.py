"""What a tree needs of its worker: agents, some of them in a version.

Rules
- A tree that is to start needs the agent that its client has named. One that goes on needs the agent of each session
  that is open, at the version of its run (R10). A retry needs that version, too, also of the sub-agents that it runs
  again, and a turn may begin with any.
- A worker that lacks it leaves the tree to another worker (workflow/missing.py).
- A tree that begins, by a start or a fork, is refused to its client if no worker that answers has what it needs
  (client/trees.py).
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec

from supervisor.core.events import AnyEvent
from supervisor.core.ids import RULES
from supervisor.core.sessions.retrying import done_again, was_cut_off_by_its_parent, why_not_retry
from supervisor.core.sessions.state import SessionState, replay_journal
from supervisor.runtime.journal.view import Entry


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """An agent that a tree needs. `reference`: where its session says that it is; None if it is found by its name.
    `version`: None for any. `given`: the input that it must take, as JSON; None: its default one; unset: any."""

    name: str
    reference: str | None = None
    version: str | None = None
    given: str | msgspec.UnsetType | None = msgspec.UNSET


def wanted_by(entries: Iterable[Entry], commands: Collection[str] = ()) -> list[Wanted]:
    """Return what the tree of a journal needs. `commands`: the kinds of those that it is about to do."""
    journals, found = dict[str, list[AnyEvent]](), list[Wanted]()
    for session, event in entries:
        journals.setdefault(session, []).append(event)
    journals.pop(RULES, None)
    states = {session: replay_journal(session, events) for session, events in journals.items()}
    retried = set(_retried(states, journals)) if "retry" in commands else ()
    for session, state in states.items():
        goes_on = state.is_open or session in retried
        if goes_on or (state.facts.parent is None and "send" in commands):
            version = state.version if goes_on else None
            found.append(Wanted(name=state.facts.path[-1], reference=state.facts.agent, version=version))
    return found


def _retried(states: Mapping[str, SessionState], journals: Mapping[str, Sequence[AnyEvent]]) -> Iterator[str]:
    """Yield the root, and the sub-agents that its retry runs again, as plans/retry.py does."""
    left = [session for session, state in states.items() if state.facts.parent is None]
    while left:
        session = left.pop()
        state = states[session]
        yield session
        if state.facts.parent is None and why_not_retry(state) is not None:  # the command is refused
            continue
        cut_off = [name for name in state.children if was_cut_off_by_its_parent(states[name])]
        left += done_again(state, journals[session], "", cut_off).children
