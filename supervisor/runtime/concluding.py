"""Concludes attempts: their endings become outcomes, of one session or of a whole tree in one append.

Rules
- A run that ends in any way but success cancels its children first; outcomes are written deepest first. An attempt
  whose parent is ending, too, leaves its ending to the parent, so that a tree ends in one append however deep it is.
- An ending that the store does not take is kept for nobody: the run can be resumed, and ends again.
"""

from typing import TYPE_CHECKING

from supervisor.core import events as e
from supervisor.core.errors import StoreError
from supervisor.core.session import SessionState
from supervisor.runtime.attempt import Attempt
from supervisor.runtime.ending import Ending, cancel_children, end_events, open_tree
from supervisor.runtime.journal import Entry, View

if TYPE_CHECKING:
    from supervisor.runtime.runner import Runner


class Concluding:
    def __init__(self, runner: "Runner") -> None:
        self._runner = runner
        self.endings: dict[str, Ending] = {}
        """How sessions have ended whose outcome is not written yet."""

    async def settle(self, attempt: Attempt) -> None:
        """A suspended attempt ended in good order: that is no crash loop (R5), and its notes are written."""

        def plan(view: View) -> list[Entry]:
            state = view.session(attempt.session)
            if state.phase != "open" or state.waiting_for is not None:
                return []
            is_due = state.barren or self._runner.journal.has_notes(attempt.session)
            return [(attempt.session, e.AttemptSettled(at=self._runner.clock.now()))] if is_due else []

        if self._runner.journal.death is None:
            await self._runner.journal.append(plan)

    async def conclude(self, attempt: Attempt, ending: Ending) -> None:
        """Write an ending, or leave it to the parent that is ending, too."""
        session = attempt.session
        self.endings[session] = ending
        was_cancelled = attempt.state.cancel is not None  # and with it all below
        if ending.kind != "succeeded" and not was_cancelled and attempt.state.open_children:
            try:
                await self._runner.journal.append(
                    lambda view: list(cancel_children(view, session, self._runner.clock.now()))
                )
            except StoreError as error:
                self._drop(session, error)
                return
        parent = attempt.state.facts.parent
        if parent in self.endings:  # it may have left before us, and left its own ending to its parent
            return
        if parent in self._runner.live and self._runner.live[parent].state.cancel is not None:
            return
        if attempt.state.open_children:
            await self.end_tree(session)
        else:
            await self._write_endings(session)

    async def end_tree(self, top: str) -> None:
        """Write the endings of a session and all below it, once none of them is running."""
        found: list[str] = []
        absent: list[SessionState] = []

        def look(view: View) -> list[Entry]:
            found[:] = open_tree(view, top)
            absent[:] = [view.session(session) for session in found if session not in self._runner.live]
            return []

        def is_running(session: str) -> bool:
            if session in self._runner.launcher.under_way:
                return True
            # One that somebody else has ended meanwhile has no ending here any more; we may be that one's task.
            return (
                session in self._runner.live
                and session not in self.endings
                and self._runner.live[session].state.is_open
            )

        def is_still() -> bool:
            while found and not is_running(found[-1]):
                found.pop()
            return not found

        try:
            await self._runner.journal.append(look)
            for state in absent:
                await self._runner.survivors.end(state)
            await self._runner.wait_until(is_still)
        except StoreError as error:
            self._drop(top, error)
        else:
            await self._write_endings(top)

    async def _write_endings(self, top: str) -> None:
        try:
            await self._runner.journal.append(
                lambda view: list(end_events(view, top, self.endings, self._runner.clock.now(), self._runner.survivors))
            )
        except StoreError as error:
            self._drop(top, error)

    def _drop(self, top: str, error: StoreError) -> None:
        """The store did not take an ending, nor then those that were left to it: nobody may count on them."""
        dropped = [top]
        for session in dropped:
            self.endings.pop(session, None)
            dropped += [each for each in self.endings if self._parent(each) == session]
        for session in dropped:
            if session not in self._runner.live and session not in self._runner.launcher.under_way:
                self._runner.journal.unpin(session)
        self._runner.refuse_for(top, error)

    def _parent(self, session: str) -> str | None:
        state = self._runner.journal.states.get(session)
        return None if state is None else state.facts.parent
