"""The wardens of a launcher that will take another command: at most one of them waits for it, the spare.

Theory: to fork a warden, and to copy the pages that it then writes, takes longer than most commands. A warden whose
command has left no process can guard another command: it keeps nothing of the one before.

Rules:
- Each such warden has a link, a socket to the launcher. The launcher gives a command through it; the warden says on it
  that it is free. The end of the link ends a warden that is free.
- A warden that takes a background job, or a process with three streams, leaves the link: the owner of such a command
  remembers its warden. The warden guards only that command.
- There is at most one spare. A second warden that becomes free is let go.
- Only on platforms with subreapers (Linux), where a warden knows that no process of its command is left.
"""

import select
import socket
from contextlib import suppress

FREE = b"f"
STAY = b"s"


class Spare:
    """The links of a launcher's wardens, and which of them waits for a command."""

    def __init__(self, poll: select.poll) -> None:
        self._poll = poll
        self._links: dict[int, tuple[int, socket.socket]] = {}  # by descriptor, with the pid of the warden
        self._waiting: tuple[int, socket.socket] | None = None

    def keep(self, warden: int, link: socket.socket) -> None:
        """Note a new warden, and our end of its link."""
        self._links[link.fileno()] = warden, link
        self._poll.register(link.fileno(), select.POLLIN)

    def take(self) -> tuple[int, socket.socket] | None:
        """Return the spare and its link, if there is one. From then on it is no spare."""
        taken, self._waiting = self._waiting, None
        return taken

    def hear(self, ready: set[int]) -> list[int]:
        """Hear which wardens are free, and return them. The first one stays, as the spare."""
        freed = []
        for fd in ready & self._links.keys():
            warden, link = self._links[fd]
            is_free = False
            with suppress(OSError):  # it was killed
                is_free = link.recv(1) == FREE
                if is_free and self._waiting is None:
                    link.send(STAY)
                    self._waiting = warden, link
            if is_free:
                freed.append(warden)
            if self._waiting is None or self._waiting[1] is not link:
                self.drop(link)
        return freed

    def drop(self, link: socket.socket) -> None:
        """Close a link: its warden has left it, or is to end."""
        if self._waiting is not None and self._waiting[1] is link:
            self._waiting = None
        self._poll.unregister(link.fileno())
        del self._links[link.fileno()]
        link.close()

    def close_all(self) -> None:
        """Close every link: a new warden must not keep the links of others open."""
        for _, link in self._links.values():
            link.close()
