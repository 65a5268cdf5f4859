"""The other side of `process`: a small process that starts one command, guards it, and ends it.

Theory: to end processes for certain, they need a parent of their own. One *launcher* (this module, in a fresh
single-threaded interpreter) serves a whole supervisor process; for each command it forks a *warden*, and the warden
forks the command. The warden is the subreaper of its command: whatever the command starts, however often it
daemonizes, stays below this warden and belongs to this command and no other. None of these processes ever becomes a
child of the user's process, so we can take no exit status from the user's, asyncio's or trio's own children, and set
no prctl on the user's process.

To fork an interpreter twice takes longer than most commands. So a warden whose command has left no process guards the
next command, too (see `spare`). It forks the process of that command at once, and both wait until they get it.

Rules:
- The owner (the supervisor's process) and a warden share a socket, the wire. Owner to warden: one request, then
  `GO`, then the end of the stream, which means "end it now": the owner's crash and its wish are one path. A fork of
  the owner may hold the wire open after the owner's death, so the death itself is watched, too (a pidfd, on Linux).
- Until `GO` the forked command waits at the gate, a socket to its warden. If owner or warden die, it exits; it never
  runs. Folder, environment and streams come by that socket, too.
- A warden takes nothing over from the command before: it has closed all its descriptors, and only the command's own
  process gets its folder and its environment. A spare ends with its launcher. If a spare, or the process that it has
  forked, was killed, the owner asks for another warden.
- Warden to owner: `started` | `failed`; after `GO`: `failed` | `exited`; last `done`. Then the wire ends.
- A warden outlives the end of its command by at most grace + `GIVE_UP_AFTER`, and ignores polite signals. If it is
  killed all the same, the launcher ends what it guarded (see `orphans`).
- The warden of a command with three streams of its own, or of a background job, tells its owner when the command has
  begun (`begun`). The warden of a job then detaches from its owner, and lives as long as the job. `END_JOB` (a signal)
  asks for the end, and `END_INPUT` for the end of its input, if it has one: two streams. Its last act is to write how
  the job ended (`record`), since the reader may be a later process. It loads what it needs for that at its start: the
  interpreter's files may be gone by then. Meanwhile it keeps the job's log within its bound (see `log_limit`), and its
  deadline, if the job was given one.
- Standard library only, and little of it; no other import of the package is run (see `launcher`).

Where the platform has no subreaper (macOS), processes that left the command's group *and* lost their parent are not
found.

The module is longer than 400 lines because a warden loads as few modules of the package as possible.
"""

import contextlib
import errno
import gc
import marshal
import os
import select
import signal
import socket
import sys
import time
from typing import Any, NamedTuple, NoReturn

from supervisor.tools.descendants import PROC, Seen, process_table, processes_below, started_at
from supervisor.tools.log_limit import LOOK_EVERY_SECONDS, Punch, find_punch, reopen, trim
from supervisor.tools.orphans import Orphans
from supervisor.tools.spare import FREE, STAY, Spare
from supervisor.tools.termination import Termination

GO = b"g"
READY = b"r"
TAKE = b"t"
END_JOB = signal.SIGUSR1
END_INPUT = signal.SIGUSR2
# Seconds that leftover processes get to end by themselves, such as the `tee` of a pipe that has just closed: what is
# left then is an error of its command.
LINGER_SECONDS = 0.5
TAKE_TIMEOUT_SECONDS = 30.0  # seconds in which the process of a command must take what it is to run
LONGEST_SECONDS = 3600.0  # seconds that it sleeps at a time: poll counts milliseconds, and not very far
REPORTED = 100  # leftover processes that are named one by one
_DEAF_TO = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# All signals whose disposition is not the default here: exec would hand "ignored" on to the command.
_TOUCHED_SIGNALS = (*_DEAF_TO, END_JOB, END_INPUT, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ)
_PR_SET_CHILD_SUBREAPER = 36


def pack(message: Any) -> bytes:
    """Frame a message: four bytes of length, then the value. Both ends are one interpreter, so marshal is exact."""
    raw = marshal.dumps(message)
    return len(raw).to_bytes(4, "big") + raw


def unpack(buffer: bytearray) -> Any:
    """Take the first whole message off the buffer, or return None."""
    end = 4 + int.from_bytes(buffer[:4], "big")
    if len(buffer) < max(end, 5):
        return None
    message = marshal.loads(bytes(buffer[4:end]))  # noqa: S302 - from our own process, over a private socket
    del buffer[:end]
    return message


def _receive(source: socket.socket) -> Any:
    """Return the next message of a blocking socket whose sender waits for our answer; None at its end."""
    buffer = bytearray()
    while (message := unpack(buffer)) is None:
        chunk = source.recv(65536)
        if not chunk:
            return None
        buffer += chunk
    return message


def _receive_fds(source: socket.socket, most: int) -> list[int]:
    """Return the descriptors that come with the next byte; none at the end of the socket."""
    _, fds, _, _ = socket.recv_fds(source, 1, most)
    for fd in fds:
        os.set_inheritable(fd, False)  # received descriptors are not close-on-exec by default
    return fds


Given = tuple[socket.socket, list[int]]
"""The wire and the streams of one command."""


class Launcher:
    """Gives each wire that arrives to a warden, until the owner (its pidfd) is gone."""

    def __init__(self, requests: socket.socket, owner: int | None) -> None:
        self._requests = requests
        self._owner = owner
        self._libc = _find_libc()
        self._punch = None if self._libc is None else find_punch(self._libc)
        self._is_subreaper = _become_subreaper(self._libc)
        self._poll = select.poll()
        self._orphans = Orphans(self._poll, _tell)
        self._spare = Spare(self._poll)
        self._wakeup = _wake_by_signals()
        for fd in (requests.fileno(), self._wakeup, *([] if owner is None else [owner])):
            self._poll.register(fd, select.POLLIN)
        started_at(os.getpid())  # reads the number of this boot, which all wardens then know
        gc.disable()  # a collection would find few cycles, and copy every page that a fork shares

    def serve(self) -> None:
        """Return when the owner is gone, and all processes that killed wardens left have ended."""
        is_wanted = True
        while is_wanted or self._orphans.pause is not None:
            pause = self._orphans.pause
            ready = {fd for fd, _ in self._poll.poll(None if pause is None else max(1, int(pause * 1000)))}
            if self._wakeup in ready:
                with contextlib.suppress(BlockingIOError):
                    os.read(self._wakeup, 4096)
            self._orphans.leave(ready)
            self._orphans.reap()
            self._orphans.step()
            for warden in self._spare.hear(ready):
                self._orphans.release(warden)
            if is_wanted:
                is_wanted = self._owner not in ready
                if is_wanted and self._requests.fileno() in ready:
                    is_wanted = self._launch()
                if not is_wanted:
                    for fd in (self._requests.fileno(), *([] if self._owner is None else [self._owner])):
                        self._poll.unregister(fd)
        if (spare := self._spare.take()) is not None:
            self._spare.drop(spare[1])
            signal.alarm(1)  # ends us, if the spare was stopped
            with contextlib.suppress(ChildProcessError):
                os.waitpid(spare[0], 0)

    def _launch(self) -> bool:
        """Give the next command to a warden; return False if there will be none."""
        # We receive one byte at a time: each carries the descriptors of one command.
        fds = _receive_fds(self._requests, 4)
        if len(fds) < 2:
            return False
        wire, streams = socket.socket(fileno=fds[0]), fds[1:]
        try:
            if not self._give_to_spare(wire, streams):
                self._fork(wire, streams)
        except OSError as error:
            _tell(wire, "failed", error.errno, b"fork")
            wire.close()
        for fd in streams:
            os.close(fd)
        return True

    def _give_to_spare(self, wire: socket.socket, streams: list[int]) -> bool:
        """Give a command to the spare; return False if there is none."""
        if (spare := self._spare.take()) is None:
            return False
        warden, link = spare
        try:
            if not self._orphans.is_alive(warden):  # the process that it has forked may hold the link open
                raise ChildProcessError
            socket.send_fds(link, [TAKE], [wire.fileno(), *streams])
        except OSError:  # it was killed
            self._spare.drop(link)
            return False
        self._orphans.keep(warden, wire)
        return True

    def _fork(self, wire: socket.socket, streams: list[int]) -> None:
        """Fork a warden for a command."""
        ours, theirs = socket.socketpair()
        with theirs:
            try:
                child = os.fork()
            except OSError:
                ours.close()
                raise
            if child == 0:
                self._requests.close()
                ours.close()
                self._orphans.close_all()
                self._spare.close_all()
                _guard((wire, streams), theirs, self._owner, self._libc, self._punch)
        if self._is_subreaper:
            self._orphans.keep(child, wire)
            self._spare.keep(child, ours)
        else:
            wire.close()
            ours.close()


def _become_subreaper(libc: Any) -> bool:
    return libc is not None and libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0


def _find_libc() -> Any:
    if not PROC:
        return None
    try:
        import ctypes  # only Linux needs it

        return ctypes.CDLL(None)
    except (ImportError, OSError):
        return None


class Place(NamedTuple):
    """What a warden has of its own, whichever command it guards."""

    identity: tuple[int, float | None]
    wakeup: int
    owner: int | None
    punch: Punch | None
    is_subreaper: bool


def _guard(first: Given, link: socket.socket, owner: int | None, libc: Any, punch: Punch | None) -> NoReturn:
    code = 1  # tells the launcher to end what is left
    given: Given | None = first
    try:
        identity = os.getpid(), started_at(os.getpid())
        for signum in (END_JOB, END_INPUT):
            signal.signal(signum, signal.SIG_IGN)
        place = Place(identity, _wake_by_signals(), owner, punch, _become_subreaper(libc))
        while True:
            warden = Warden(place)
            given = given or _take_given(link)
            if given is None or not warden.take(*given):
                warden.leave()
                break
            if warden.is_remembered:
                link.close()
            is_free = warden.run() and not warden.is_remembered
            if is_free:
                # Before the owner learns of the end: it may have another command at once.
                with contextlib.suppress(OSError):  # the launcher was killed: then the link is at its end
                    link.send(FREE)
            warden.report()
            given = None
            if not is_free or link.recv(1) != STAY:
                break
        code = 0
    except BaseException:  # noqa: BLE001 - this process has no other reader
        import traceback  # slow to import, and almost never needed

        if given is not None:
            _tell(given[0], "broken", traceback.format_exc())
    finally:
        os._exit(code)


def _take_given(link: socket.socket) -> Given | None:
    """Wait for the next command; return None if there will be none."""
    fds = _receive_fds(link, 4)
    return (socket.socket(fileno=fds[0]), fds[1:]) if fds else None


def _wake_by_signals() -> int:
    """Return a descriptor to read from whenever a child has changed state, or another signal has come."""
    wakeup, writer = os.pipe()
    os.set_blocking(wakeup, False)
    os.set_blocking(writer, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    return wakeup


def _tell(wire: socket.socket, *message: object) -> None:
    with contextlib.suppress(OSError):  # the owner no longer listens
        wire.sendall(pack(message))


class Warden:
    """The guard of one command: from the fork of its process, before the command is known, to the end of the last
    process that it started."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._owner = set() if place.owner is None else {place.owner}  # descriptors that tell of the owner
        self._is_told_to_end = False
        self._is_late = False
        self._began = 0.0
        self._status: int | None = None  # of the command, as waitpid returns it
        self._unsent = bytearray()
        self._input: int | None = None  # the end of a job's input that keeps it open
        self._gate, gate = socket.socketpair()
        self._news, news_writer = os.pipe()
        self._leader = os.fork()
        if self._leader == 0:
            self._gate.close()
            _become_command(gate, news_writer)
        gate.close()
        os.close(news_writer)
        # Read while the command's process gets ready.
        self._identities = self._leader, started_at(self._leader), *place.identity

    def take(self, wire: socket.socket, streams: list[int]) -> bool:
        """Read the request for a command, and pass it to its process; return False if the owner has given up."""
        self._wire = wire
        self._owner.add(wire.fileno())
        request = _receive(wire)  # the owner sends GO only after `started`
        if request is None:
            return False
        order, self._grace, self._record, self._deadline = request
        if self._record is not None:
            signal.signal(END_JOB, lambda *_: None)
            signal.signal(END_INPUT, lambda *_: None)
            if len(streams) == 2:  # its input, of which we keep the other end open
                self._input = os.open(os.path.dirname(self._record) + b"/input", os.O_WRONLY | os.O_NONBLOCK)  # noqa: PTH120 - bytes, without pathlib
        self.is_remembered = self._record is not None or len(streams) == 3
        self._gate.settimeout(TAKE_TIMEOUT_SECONDS)
        socket.send_fds(self._gate, [TAKE], streams)
        self._gate.sendall(order)
        is_logged = self._record is not None and self._place.punch is not None
        self._log = reopen(streams[-1]) if is_logged else None
        for fd in streams:
            os.close(fd)
        return True

    def leave(self) -> None:
        """End the process of a command that will not come."""
        self._gate.close()
        os.waitpid(self._leader, 0)

    def run(self) -> bool:
        """Start, guard and end it; return whether no process of the command is left, for certain."""
        if not self._open_gate():
            if self._status is None:
                os.kill(self._leader, signal.SIGKILL)  # it waits at the gate, and is not reaped: the pid is its own
                os.waitpid(self._leader, 0)
            return False
        if self.is_remembered and not self._has_begun():
            return False
        if self._record is not None:
            self._let_go()
        is_ended = self._watch()
        self._end(is_ended=is_ended)
        return self._place.is_subreaper and self._is_nobody_left()

    def report(self) -> None:
        """Tell the owner the rest, and close what belongs to the command."""
        self._send_reports()
        self._wire.close()
        os.close(self._news)

    def _open_gate(self) -> bool:
        """Report the start and wait for `GO`; return False if there is nothing to run (any more)."""
        while not (ready := self._wait(None, *self._owner, self._news) - {self._place.wakeup}):
            pass  # a child changed state: the news pipe says what happened
        if self._news not in ready:
            return False
        news = os.read(self._news, 4096)
        if not news:
            raise ChildProcessError("the process that was to run the command was killed")
        if news != READY:
            self._report_failure(news)
            return False
        _tell(self._wire, "started", *self._identities)
        while not (ready := self._wait(None, *self._owner) & self._owner):
            if self._has_exited():
                _tell(self._wire, "failed", errno.ECHILD, os.fsencode("the gate"))
                return False
        if self._wire.fileno() not in ready or self._wire.recv(1) != GO:
            return False
        self._began = time.monotonic()
        with contextlib.suppress(OSError):  # the command was killed meanwhile: `_watch` finds its status
            self._gate.send(GO)
        self._gate.close()
        return True

    def _report_failure(self, news: bytes) -> None:
        number, filename = marshal.loads(news) if news else (errno.ECHILD, b"the gate")  # noqa: S302 - from our own fork
        _tell(self._wire, "failed", number, filename)

    def _has_begun(self) -> bool:
        """Tell the owner that its command has begun; return False if it could not begin."""
        while self._news not in self._wait(None, self._news):
            pass  # a child changed state: the news pipe says what happened
        if news := os.read(self._news, 4096):
            self._write_record(None, 0.0, is_ended=False)  # first: who hears of the failure may look for the job
            self._report_failure(news)
            return False
        _tell(self._wire, "begun")
        return True

    def _let_go(self) -> None:
        """Detach from the owner of a job."""
        self._wire.close()
        self._owner = set()

    def _write_record(self, code: int | None, duration: float, *, is_ended: bool) -> None:
        """Write to disk how a job ended: JSON, whole or not at all."""
        if self._record is None:
            return
        number = "null" if code is None else str(code)
        late = f', "deadline": {self._deadline}' if is_ended and self._is_late else ""
        text = (
            f'{{"code": {number}, "duration": {duration:.6f}, "was_ended": {"true" if is_ended else "false"}{late}}}\n'
        )
        with contextlib.suppress(OSError):  # no room, or the folder is gone: a reader finds the job lost
            draft = self._record + b".new"
            file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.write(file, text.encode())
            os.fsync(file)
            os.close(file)
            os.rename(draft, self._record)  # noqa: PTH104 - bytes, without pathlib
            folder = os.open(os.path.dirname(self._record), os.O_RDONLY)  # noqa: PTH120 - bytes, without pathlib
            os.fsync(folder)

    def _watch(self) -> bool:
        """Wait until the command exits or must be ended; return whether it must be ended."""
        ready: set[int] = set()
        while not self._has_exited():  # checked first: an exit exactly at the deadline is an exit, not an end by us
            if ready & self._owner or self._is_told_to_end:
                return True
            left = None if self._deadline is None else self._began + self._deadline - time.monotonic()
            if left is not None and left <= 0:
                self._is_late = True
                return True
            # After that check: the wake-up at the gate may have been for the exit, and there would be no second one.
            pauses = [each for each in (left, None if self._log is None else LOOK_EVERY_SECONDS) if each is not None]
            ready = self._wait(min(pauses, default=None), *self._owner)
            self._trim_log()
        return False

    def _trim_log(self) -> None:
        if self._log is not None and self._place.punch is not None:
            with contextlib.suppress(OSError):  # this file system has no holes, or there is no room for the line
                trim(self._log, self._place.punch)

    def _end_input(self) -> None:
        if self._input is not None:
            os.close(self._input)
            self._input = None

    def _has_exited(self) -> bool:
        """Reap all our children that have exited; return whether the command itself has."""
        with contextlib.suppress(ChildProcessError):
            while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
                if reaped[0] == self._leader:
                    self._status = reaped[1]
        return self._status is not None

    def _end(self, *, is_ended: bool) -> None:
        now = time.monotonic()
        if not is_ended and not self._report_exit(now, is_ended=False):
            return
        ending = Termination(term_at=now if is_ended else now + LINGER_SECONDS, grace=self._grace)
        is_told, was_signalled, pause = not is_ended, False, 0.002
        while not self._is_nobody_left():
            self._send_reports()
            alive = self._alive(ending)
            now = time.monotonic()
            # Checked last: a command that exits before the first signal was not ended by us, deadline or not.
            if self._has_exited() and not is_told:
                is_told = self._report_exit(now, is_ended=was_signalled)
                self._send_reports()
            was_signalled = is_ended
            # While the leader is not reaped, the group's number is certainly its own.
            if ending.step(alive, now, group=None if self._status is not None else self._leader):
                break
            if not (alive or self._place.is_subreaper or self._status is None):
                break  # zombies that are not ours to reap, as far as this platform shows
            self._wait(pause)
            pause = min(pause * 2, 0.05)
        if self._status is not None and not is_told:
            self._report_exit(time.monotonic(), is_ended=was_signalled)
        rows = [
            (each.pid, each.command, each.session, each.how)
            for each in ending.ended()
            # Processes that end with their command are reported only if they had escaped, or would not end.
            if not is_ended or each.session != self._leader or each.how in ("refused", "stuck")
        ]
        self._unsent += pack(("done", rows[:REPORTED], len(rows)))
        self._trim_log()
        code = None if self._status is None else os.waitstatus_to_exitcode(self._status)
        self._write_record(code, time.monotonic() - self._began, is_ended=was_signalled)

    def _report_exit(self, now: float, *, is_ended: bool) -> bool:
        assert self._status is not None
        if news := os.read(self._news, 4096):  # no other writer is left: exec closed the pipe, or the process is gone
            self._report_failure(news)
            return False
        self._unsent += pack(("exited", os.waitstatus_to_exitcode(self._status), now - self._began, is_ended))
        return True

    def _send_reports(self) -> None:
        """Tell the owner of the exit and of the end: at once of both, if the command leaves no process."""
        with contextlib.suppress(OSError):  # the owner no longer listens
            self._wire.sendall(self._unsent)
        self._unsent.clear()

    def _is_nobody_left(self) -> bool:
        self._has_exited()
        if self._status is None:
            return False
        try:
            if self._place.is_subreaper:
                # All processes below a subreaper are below one of its children. Without children none is left: exact.
                os.waitpid(-1, os.WNOHANG)
            else:
                os.killpg(self._leader, 0)
        except (ChildProcessError, ProcessLookupError):
            return True
        except PermissionError:
            pass  # a process is left that we may not signal
        return False

    def _alive(self, ending: Termination) -> list[Seen]:
        processes = process_table()
        mine = processes_below(processes, os.getpid())
        if not self._place.is_subreaper:
            mine |= {pid: s for pid, s in processes.items() if s.group == self._leader or ending.knows(s)}
        # A zombie that is our child and could not be reaped has threads that still run.
        return [seen for seen in mine.values() if not seen.is_zombie or seen.parent == os.getpid()]

    def _wait(self, seconds: float | None, *fds: int) -> set[int]:
        """Sleep until a descriptor is ready (or at its end), a child changes state, or the time is over."""
        poll = select.poll()
        for fd in (*fds, self._place.wakeup):
            poll.register(fd, select.POLLIN)
        ready = {
            fd for fd, _ in poll.poll(None if seconds is None else max(1, int(min(seconds, LONGEST_SECONDS) * 1000)))
        }
        if self._place.wakeup in ready:
            told = os.read(self._place.wakeup, 4096)
            self._is_told_to_end |= END_JOB in told
            if END_INPUT in told:
                self._end_input()
        return ready


def _become_command(gate: socket.socket, news: int) -> NoReturn:
    """Take a command, wait for `GO`, and execute it; exit if one of them does not come."""
    filename = b""
    try:
        signal.set_wakeup_fd(-1)
        for signum in _TOUCHED_SIGNALS:
            signal.signal(signum, signal.SIG_DFL)
        os.setsid()
        streams = _receive_fds(gate, 3)
        request = _receive(gate) if streams else None
        if request is None:
            os._exit(0)
        argv, cwd, environment = request
        if len(streams) == 1:
            streams = [os.open(os.devnull, os.O_RDONLY), *streams]
        if len(streams) == 2:
            streams = [*streams, streams[1]]
        for number, fd in enumerate(streams):
            os.dup2(fd, number)
        filename = cwd
        os.chdir(cwd)
        os.write(news, READY)
        if gate.recv(1) != GO:
            os._exit(0)
        filename = argv[0]
        os.execvpe(filename, argv, environment)  # noqa: S606 - running the command is the purpose
    except OSError as error:
        os.write(news, marshal.dumps((error.errno, filename[:1024])))  # one atomic write
    finally:
        os._exit(127)


def main() -> None:
    """Run the launcher on the socket that is standard input."""
    os.setsid()  # an interrupt typed at the terminal is for the owner, which knows what to do with its commands
    for signum in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(signum) == signal.SIG_IGN:
            signal.signal(signum, signal.SIG_DFL)  # our parent ignored it; the commands must not
    # With the last two a write to a dead owner or to a full file is an error and does not kill the writer.
    for signum in (*_DEAF_TO, signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(signum, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    requests = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    Launcher(requests, _watch_owner(int(sys.argv[2]))).serve()


def _watch_owner(pid: int) -> int | None:
    if not (PROC and hasattr(os, "pidfd_open")):
        return None
    try:
        owner: int = os.pidfd_open(pid)
    except ProcessLookupError:
        sys.exit(0)
    except OSError:
        return None  # a kernel before 5.3, or a sandbox: the wire must suffice
    if os.getppid() != pid:
        sys.exit(0)  # the owner died while we started, and another process has its pid
    return owner
