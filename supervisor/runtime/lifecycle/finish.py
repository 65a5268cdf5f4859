"""Write outcomes: the endings of attempts become the outcomes of one session, or of a whole tree in one append.

Rules
- A run that does not succeed cancels its children first. Outcomes are written deepest first. If the parent is ending,
  too, an attempt leaves its ending to the parent: so a tree of any depth ends in one append.
- If the store refuses an ending, the ending is dropped. The run can be resumed, and ends again.
"""

from msgspec.structs import replace

from supervisor.core import events as e
from supervisor.core.errors import StoreError
from supervisor.core.sessions.state import MOST_SAID_CHARACTERS, SessionState
from supervisor.runtime.attempt.attempt import Attempt
from supervisor.runtime.journal.writer import Entry, View
from supervisor.runtime.lifecycle.attempts import Attempts
from supervisor.runtime.lifecycle.orphans import OrphanedProcesses
from supervisor.runtime.plans.end import Ending, cancel_children, end_events, open_tree


class Finishing:
    def __init__(self, attempts: Attempts, orphans: OrphanedProcesses) -> None:
        self._attempts = attempts
        self._journal, self._clock = attempts.journal, attempts.clock
        self._orphans = orphans

    async def settle(self, attempt: Attempt) -> None:
        """Journal that a suspended attempt ended in good order, so that it does not count as barren (R5). That writes
        its notes, too."""

        def plan(view: View) -> list[Entry]:
            state = view.session(attempt.session)
            if state.phase != "open" or state.waiting_for is not None:
                return []
            is_due = state.barren or self._journal.count_notes(attempt.session)
            return [(attempt.session, e.AttemptSettled(at=self._clock.now()))] if is_due else []

        if self._journal.death is None:
            await self._journal.append(plan)

    async def finish(self, attempt: Attempt, ending: Ending) -> None:
        """Write an ending, or leave it to a parent that is ending, too."""
        session = attempt.session
        if ending.kind != "succeeded":
            ending = replace(ending, writing=self._attempts.hub.texts.get_unsaid(session, MOST_SAID_CHARACTERS))
        self._attempts.endings[session] = ending
        was_cancelled = attempt.state.cancel is not None  # then its children were cancelled, too
        if ending.kind != "succeeded" and not was_cancelled and attempt.state.open_children:
            try:
                await self._journal.append(lambda view: list(cancel_children(view, session, self._clock.now())))
            except StoreError as error:
                self._drop(session, error)
                return
        parent = attempt.state.facts.parent
        live = self._attempts.live
        if parent in self._attempts.endings:  # the parent may have left memory, and left its ending to its own parent
            return
        if parent in live and live[parent].state.cancel is not None:
            return
        if attempt.state.open_children:
            await self.end_tree(session)
        else:
            await self._write_endings(session)

    async def end_tree(self, top: str) -> None:
        """Write the endings of a session and all sessions below it, when none of them is running any more."""
        attempts, live = self._attempts, self._attempts.live

        def look(view: View) -> tuple[list[Entry], tuple[list[str], list[SessionState]]]:
            found = open_tree(view, top)
            return [], (found, [view.session(session) for session in found if session not in live])

        def is_running(session: str) -> bool:
            if session in attempts.preparing:
                return True
            # A session that another task has ended meanwhile has no ending here any more, and may be ours.
            return session in live and session not in attempts.endings and live[session].state.is_open

        def is_still() -> bool:
            while left and not is_running(left[-1]):
                left.pop()
            return not left

        try:
            left, absent = await self._journal.append_with_answer(look)
            for state in absent:
                await self._orphans.end(state)
            await self._attempts.wait_until(is_still)
        except StoreError as error:
            self._drop(top, error)
        else:
            await self._write_endings(top)

    async def _write_endings(self, top: str) -> None:
        try:
            await self._journal.append(
                lambda view: list(end_events(view, top, self._attempts.endings, self._orphans.found, self._clock.now()))
            )
        except StoreError as error:
            self._drop(top, error)

    def _drop(self, top: str, error: StoreError) -> None:
        """Drop an ending that the store refused, and the endings below it that were left to it."""
        dropped, endings = [top], self._attempts.endings
        for session in dropped:
            endings.pop(session, None)
            dropped += [each for each in endings if self._parent(each) == session]
        for session in dropped:
            self._attempts.let_go(session)
        self._attempts.refuse_for(top, error)

    def _parent(self, session: str) -> str | None:
        state = self._journal.states.get(session)
        return None if state is None else state.facts.parent
