"""What the launcher does for a command whose warden was killed: it ends what the command had started, and says so.

Theory: a warden is parent to all that its command starts, so its death would set free whatever was daemonized. The
launcher is a subreaper as well: those processes become its own children, and each child of the launcher that is no
warden is such an orphan.

Rules:
- The launcher keeps a copy of each wire, and answers on it in a killed warden's place. It closes the copy once the
  warden has gone, or the owner is not there any more: the owner of a background job leaves the wire when the job has
  begun. Nobody is told then, and the job is found lost.
- Of several wardens that were killed together nobody can tell whose an orphan was: each of their owners is told of all.
- The launcher never waits here: it looks again after `pause` seconds, and serves its owner in between.
- Only where the platform has subreapers (Linux). Elsewhere the owner ends the command by pid.
"""

import os
import select
import socket
import time
from collections.abc import Callable
from contextlib import suppress

from supervisor.tools.descendants import Seen, below, table
from supervisor.tools.ending import Ending

GRACE = 2.0  # seconds from SIGTERM to SIGKILL: the command's own grace went with its warden
SHORTEST, LONGEST = 0.002, 0.05  # seconds between two looks
KILLED = "the process that guards the command was killed; what the command had started was ended"


class Orphans:
    """The wires of a launcher's wardens, and the ending of what killed ones leave."""

    def __init__(self, poll: select.poll, tell: Callable[..., None]) -> None:
        self._poll = poll
        self._tell = tell
        self._wardens: dict[int, socket.socket | None] = {}  # alive; None: its owner has left the wire
        self._unanswered: list[socket.socket] = []
        self._ending: Ending | None = None
        self._pause = SHORTEST

    @property
    def pause(self) -> float | None:
        """Seconds until orphans are to be looked at again; None while there are none."""
        return None if self._ending is None else self._pause

    def keep(self, warden: int, wire: socket.socket) -> None:
        """Note a new warden, with a copy of its wire."""
        self._wardens[warden] = wire
        self._poll.register(wire.fileno(), 0)  # which still tells when the owner is gone

    def close_all(self) -> None:
        """Close every wire: a new warden must not hold those of others open."""
        for wire in (*self._wardens.values(), *self._unanswered):
            if wire is not None:
                wire.close()

    def leave(self, ready: set[int]) -> None:
        """Close the wires that owners have left."""
        for warden, wire in self._wardens.items():
            if wire is not None and wire.fileno() in ready:
                self._poll.unregister(wire.fileno())
                wire.close()
                self._wardens[warden] = None

    def reap(self) -> None:
        """Reap all that has ended; a warden that was killed leaves its command to us."""
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
                    self._ending = self._ending or Ending(term_at=time.monotonic(), grace=GRACE)
                    self._pause = SHORTEST

    def step(self) -> None:
        """Look at the orphans once; end them, or answer for them."""
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
        # Without the wardens, nothing below them is reached.
        others = {pid: seen for pid, seen in table().items() if pid not in self._wardens}
        return [seen for seen in below(others, os.getpid()).values() if not seen.is_zombie]
