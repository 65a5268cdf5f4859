"""Ending a set of processes: SIGTERM, grace, SIGKILL, until none is left or nothing more can be done.

Theory: the steps are planned synchronously, so that the warden (a process without an event loop) and
`end_orphaned_process` (a task) share them. Each calls `step` again and again with the processes that are alive now, and
sleeps in between as it likes.

Rules:
- Each process gets each signal once: a second SIGTERM means "at once" to many programs. SIGCONT goes with SIGTERM,
  since a stopped process would not receive SIGTERM alone.
- SIGTERM goes to the processes that are there when it is due. A process that appears later may be part of the clean-up
  that SIGTERM asked for, and is left alone until the grace is over and all processes get SIGKILL.
- A process that may not be signalled (EPERM) is "refused", and is not waited for.
"""

import os
import signal
from collections.abc import Iterable
from typing import Literal, NamedTuple

from supervisor.tools.descendants import Seen, command_of, send_signal

How = Literal["terminated", "killed", "refused", "stuck"]

GIVE_UP_AFTER_SECONDS = 2.0  # seconds after SIGKILL, for a process that hangs in the kernel (a dead network drive)


class Ended(NamedTuple):
    """How one process ended. `how` is "stuck" if it was alive after SIGKILL, "refused" if we may not signal it."""

    pid: int
    command: str
    session: int
    how: How


class Termination:
    """The ending of some processes; times are monotonic seconds.

    `term_at` is when SIGTERM is due, `grace` the seconds from there to SIGKILL.
    """

    send = staticmethod(send_signal)
    """Sends a process a signal, and says what came of it."""

    def __init__(self, *, term_at: float, grace: float) -> None:
        self._term_at = term_at
        self._kill_at = term_at + grace
        self._give_up_at = self._kill_at + GIVE_UP_AFTER_SECONDS
        self._seen: dict[tuple[int, float], Ended] = {}
        self._alive: set[tuple[int, float]] = set()
        self._signalled: dict[tuple[int, float], signal.Signals] = {}  # the last signal that each process got
        self._begun: set[signal.Signals] = set()
        self._has_given_up = False

    def knows(self, seen: Seen) -> bool:
        """Whether this process was seen by an earlier step, even if it has another parent or group by now."""
        return seen.identity in self._seen

    def step(self, alive: Iterable[Seen], now: float, *, group: int | None = None) -> bool:
        """Send each process the signal that is due; return True when nothing more can be done for those alive.

        `group` is a process group to be signalled in one call, which no fork within the group can outrun. The caller
        makes sure that the number is still this group's: its leader is alive, or has not been reaped.
        """
        alive = list(alive)
        self._alive = {seen.identity for seen in alive}
        for seen in alive:
            if seen.identity not in self._signalled:  # read again in each step: a fresh fork has not called exec yet
                self._seen[seen.identity] = Ended(seen.pid, command_of(seen.pid), seen.session, "terminated")
        due = self._due(now)
        if due == signal.SIGKILL or (due is not None and due not in self._begun):
            if group is not None and due not in self._begun:
                self._signal_group(group, due, alive)
            for seen in alive:
                self._signal(seen, due)
            if alive:
                self._begun.add(due)
        self._has_given_up = now >= self._give_up_at
        refused = [seen for seen in alive if self._seen[seen.identity].how == "refused"]
        return self._has_given_up or (bool(alive) and len(refused) == len(alive))

    def ended(self) -> list[Ended]:
        """Return all processes that were signalled, and how each ended; not those that exited before any signal."""
        stuck = self._alive if self._has_given_up else set()
        return [
            ended._replace(how="stuck") if identity in stuck and ended.how != "refused" else ended
            for identity, ended in self._seen.items()
            if identity in self._signalled
        ]

    def _due(self, now: float) -> signal.Signals | None:
        if now >= self._kill_at:
            return signal.SIGKILL
        return signal.SIGTERM if now >= self._term_at else None

    def _signal_group(self, group: int, due: signal.Signals, alive: list[Seen]) -> None:
        try:
            os.killpg(group, due)
            if due == signal.SIGTERM:
                os.killpg(group, signal.SIGCONT)
        except (ProcessLookupError, PermissionError):
            return  # no process there, or none that we may signal: the single signals show which
        for seen in alive:
            # A second SIGKILL does no harm, and the single signals show which processes we may not signal.
            if seen.group == group and due == signal.SIGTERM:
                self._note(seen, due)

    def _signal(self, seen: Seen, due: signal.Signals) -> None:
        if self._signalled.get(seen.identity) == due:
            return
        answer = self.send(seen.identity, due)
        if answer == "sent" and due == signal.SIGTERM:
            self.send(seen.identity, signal.SIGCONT)
        if answer != "gone":
            self._note(seen, due)
        if answer == "refused":
            self._seen[seen.identity] = self._seen[seen.identity]._replace(how="refused")

    def _note(self, seen: Seen, due: signal.Signals) -> None:
        self._signalled[seen.identity] = due
        how: How = "killed" if due == signal.SIGKILL else "terminated"
        self._seen[seen.identity] = self._seen[seen.identity]._replace(how=how)
