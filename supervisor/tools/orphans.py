"""What the launcher does for a command whose warden was killed: it ends the orphaned processes, and reports that.

Theory: a warden is the parent of all that its command starts, so its death would set daemonized processes free. The
launcher is a subreaper, too: those processes become its own children, and each child of the launcher that is not a
warden is such an orphan.

Rules:
- The launcher keeps a copy of each wire, and answers on it in place of a killed warden. It closes the copy once the
  warden has exited or is free for another command, or once the owner has closed its end: the owner of a background job
  closes it when the job has begun. Then no process is told, and the job is found lost.
- If several wardens were killed together, the launcher cannot tell which command an orphan came from: it reports all
  orphans to each owner.
- The launcher never blocks here: it looks again after `pause` seconds, and serves its owner in between.
- Only on platforms with subreapers (Linux). Elsewhere the owner ends the command by pid.
"""

import os
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from supervisor.tools.descendants import Seen, process_table, processes_below
from supervisor.tools.termination import Termination

GRACE_SECONDS = 2.0  # seconds from SIGTERM to SIGKILL; only the killed warden knew the command's own grace
SHORTEST, LONGEST = 0.002, 0.05  # seconds between two looks
KILLED = "the process that guards the command was killed; what the command had started was ended"


class Orphans:
    """The wires of a launcher's wardens, and the ending of the processes that killed wardens leave."""

    def __init__(self, poll: select.poll, tell: Callable[..., None]) -> None:
        self._poll = poll
        self._tell = tell
        self._wardens: dict[int, socket.socket | None] = {}  # alive; None: a spare, or the owner has closed the wire
        self._unanswered: list[socket.socket] = []
        self._ending: Termination | None = None
        self._pause = SHORTEST

    @property
    def pause(self) -> float | None:
        """Seconds until the next look at orphans; None while there are none."""
        return None if self._ending is None else self._pause

    def keep(self, warden: int, wire: socket.socket) -> None:
        """Note a warden that has been given a command, with a copy of its wire."""
        self._wardens[warden] = wire
        self._poll.register(wire.fileno(), 0)  # mask 0 still reports that the owner has hung up

    def is_alive(self, warden: int) -> bool:
        """Return whether a warden has not been reaped."""
        return warden in self._wardens

    def release(self, warden: int) -> None:
        """Close the wire of a warden whose command is over; the warden lives on."""
        wire = self._wardens.get(warden)
        if wire is not None:
            self._poll.unregister(wire.fileno())
            wire.close()
            self._wardens[warden] = None

    def close_all(self) -> None:
        """Close every wire: a new warden must not keep the wires of others open."""
        for wire in (*self._wardens.values(), *self._unanswered):
            if wire is not None:
                wire.close()

    def leave(self, ready: set[int]) -> None:
        """Close the wires that their owners have closed."""
        for warden, wire in self._wardens.items():
            if wire is not None and wire.fileno() in ready:
                self.release(warden)

    def reap(self) -> None:
        """Reap all children that have exited; a warden that was killed leaves its command to us."""
        with suppress(ChildProcessError):
            while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
                pid, status = reaped
                if pid not in self._wardens:
                    continue
                wire = self._wardens.pop(pid)
                if wire is not None:
                    self._poll.unregister(wire.fileno())
                    if status:
                        self._unanswered.append(wire)
                    else:
                        wire.close()
                if status:
                    self._ending = self._ending or Termination(term_at=time.monotonic(), grace=GRACE_SECONDS)
                    self._pause = SHORTEST

    def step(self) -> None:
        """Look at the orphans once: end them, or report that they are gone."""
        if self._ending is None:
            return
        alive = self._alive()
        if not self._ending.step(alive, time.monotonic()) and alive:
            self._pause = min(self._pause * 2, LONGEST)
            return
        rows = [(each.pid, each.command, each.session, each.how) for each in self._ending.ended()]
        self._ending = None
        for wire in self._unanswered:
            self._tell(wire, "broken", KILLED)
            self._tell(wire, "done", rows, len(rows))
            wire.close()
        self._unanswered = []

    def _alive(self) -> list[Seen]:
        # Wardens are left out, so the walk does not reach what is below them.
        others = {pid: seen for pid, seen in process_table().items() if pid not in self._wardens}
        return [seen for seen in processes_below(others, os.getpid()).values() if not seen.is_zombie]
