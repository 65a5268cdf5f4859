"""The other side of `process`: a small process that starts one command, stands guard over it, and ends it.

Theory: what is to be ended for certain must have a parent of its own. One *launcher* (this module, in a fresh
single-threaded interpreter) serves a whole supervisor process; for each command it forks a *warden*, and the warden
forks the command. The warden is the subreaper of its command: whatever the command starts, however often it
daemonizes, stays below this warden and belongs to this command and no other. Nothing of it ever becomes a child of
the user's process, so no exit status can be stolen from the user's, asyncio's or trio's own children, and no
prctl is set on the user's process.

Rules:
- The owner (the supervisor's process) and a warden share a socket, the wire. Owner to warden: one request, then
  `GO`, then the end of the stream, which means "end it now": the owner's crash and its wish are one path. As a fork
  of the owner's may hold the wire open after its death, the death itself is watched as well (a pidfd, on Linux).
- Until `GO` the forked command waits at the gate, a pipe. If owner or warden die, it exits; it never runs.
- Warden to owner: `started` | `failed`; after `GO`: `failed` | `exited`; last `done`. Then the wire ends.
- A warden never outlives the end of its command by more than grace + `GIVE_UP_AFTER`, and ignores polite signals. If it
  is killed all the same, the launcher ends what it guarded (see `orphans`).
- A background job's warden lets go of its owner once the command has begun (`begun`), and lives as long as the job:
  `END_JOB` (a signal) asks for the end, and the last thing it does is to write down how the job ended (`record`),
  since whoever wants to know may be a later process. What it needs for that is loaded before: the interpreter's files
  may be gone by then. Meanwhile it keeps the job's log within its bound (see `log_limit`).
- Standard library only, and little of it; no import of the package around it is run (see `launcher`).

Where the platform has no subreaper (macOS), what left the command's group *and* lost its parent is not found.

The module is longer than 400 lines because a warden loads no other module of the package.
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
from typing import Any, NoReturn

from supervisor.tools.descendants import PROC, Seen, below, started_at, table
from supervisor.tools.ending import Ending
from supervisor.tools.log_limit import LOOK_EVERY, Punch, find_punch, reopen, trim
from supervisor.tools.orphans import Orphans

GO = b"g"
READY = b"r"
END_JOB = signal.SIGUSR1
LINGER = 0.1  # seconds that what is left behind has to end by itself: the `tee` of a pipe just closed
REPORTED = 100  # left-behind processes that are named one by one
_DEAF_TO = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
# All whose disposition is not the default here: exec would hand "ignored" on to the command.
_TOUCHED_SIGNALS = (*_DEAF_TO, END_JOB, signal.SIGCHLD, signal.SIGPIPE, signal.SIGXFSZ)
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


class Launcher:
    """Forks a warden for each wire that arrives, until the owner (its pidfd) is gone."""

    def __init__(self, requests: socket.socket, owner: int | None) -> None:
        self._requests = requests
        self._owner = owner
        self._libc = _find_libc()
        self._punch = None if self._libc is None else find_punch(self._libc)
        self._is_subreaper = _become_subreaper(self._libc)
        self._poll = select.poll()
        self._orphans = Orphans(self._poll, _tell)
        self._wakeup, writer = os.pipe()
        for fd in (self._wakeup, writer):
            os.set_blocking(fd, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        for fd in (requests.fileno(), self._wakeup, *([] if owner is None else [owner])):
            self._poll.register(fd, select.POLLIN)
        gc.disable()  # no cycles worth collecting, and a collection would copy every page that a fork shares

    def serve(self) -> None:
        """Return when the owner is gone, and all that killed wardens left is ended."""
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
            if is_wanted:
                is_wanted = self._owner not in ready
                if is_wanted and self._requests.fileno() in ready:
                    is_wanted = self._fork()
                if not is_wanted:
                    for fd in (self._requests.fileno(), *([] if self._owner is None else [self._owner])):
                        self._poll.unregister(fd)

    def _fork(self) -> bool:
        # One byte at a time: each carries the two descriptors of one command.
        _, fds, _, _ = socket.recv_fds(self._requests, 1, 2)
        if len(fds) < 2:
            return False
        for fd in fds:
            os.set_inheritable(fd, False)  # received descriptors are not close-on-exec by themselves
        wire, output = socket.socket(fileno=fds[0]), fds[1]
        try:
            child = os.fork()
        except OSError as error:
            _tell(wire, "failed", error.errno, b"fork")
            wire.close()
        else:
            if child == 0:
                self._requests.close()
                self._orphans.close_all()
                _guard(wire, output, self._owner, self._libc, self._punch)
            if self._is_subreaper:
                self._orphans.keep(child, wire)
            else:
                wire.close()
        os.close(output)
        return True


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


def _guard(wire: socket.socket, output: int, owner: int | None, libc: Any, punch: Punch | None) -> NoReturn:
    code = 1  # for the launcher, which ends what is left then
    try:
        Warden(wire, output, owner, punch, is_subreaper=_become_subreaper(libc)).run()
        code = 0
    except BaseException:  # noqa: BLE001 - this process has nobody else to tell
        import traceback  # slow, and needed never

        _tell(wire, "broken", traceback.format_exc())
    finally:
        os._exit(code)


def _tell(wire: socket.socket, *message: object) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        wire.sendall(pack(message))


class Warden:
    """One command, from its fork to the end of the last process it started."""

    def __init__(
        self, wire: socket.socket, output: int, owner: int | None, punch: Punch | None, *, is_subreaper: bool
    ) -> None:
        self._wire = wire
        self._owner = {wire.fileno()} if owner is None else {wire.fileno(), owner}  # where the owner is heard of
        self._is_subreaper = is_subreaper
        argv, self._cwd, environment, self._grace, self._record = self._read_request()
        self._argv: list[bytes] = argv
        self._environment: dict[bytes, bytes] = environment
        wakeup, wakeup_writer = os.pipe()
        os.set_blocking(wakeup, False)
        os.set_blocking(wakeup_writer, False)
        self._wakeup = wakeup
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(END_JOB, (lambda *_: None) if self._record else signal.SIG_IGN)
        self._is_told_to_end = False
        signal.set_wakeup_fd(wakeup_writer, warn_on_full_buffer=False)
        self._began = 0.0
        self._status: int | None = None  # of the command, as waitpid gives it
        gate_reader, self._gate = os.pipe()
        self._news, news_writer = os.pipe()
        self._leader = os.fork()
        if self._leader == 0:
            os.close(self._gate)
            self._become_command(output, gate_reader, news_writer)
        os.close(gate_reader)
        os.close(news_writer)
        self._punch = punch
        self._log = reopen(output) if self._record is not None and punch is not None else None
        os.close(output)

    def run(self) -> None:
        """Start, guard, end, report; return when nothing of the command is left."""
        if not self._open_gate():
            if self._status is None:
                os.kill(self._leader, signal.SIGKILL)  # it waits at the gate; not reaped, so the pid is its own
                os.waitpid(self._leader, 0)
            return
        if self._record is not None and not self._let_go():
            return
        is_ended = self._watch()
        self._end(is_ended=is_ended)

    def _read_request(self) -> Any:
        buffer = bytearray()
        while (request := unpack(buffer)) is None:
            chunk = self._wire.recv(65536)  # GO comes only after `started` was told, so this is the request alone
            if not chunk:
                os._exit(0)  # withdrawn before it was made
            buffer += chunk
        return request

    def _become_command(self, output: int, gate: int, news: int) -> NoReturn:
        filename: bytes = self._cwd
        try:
            signal.set_wakeup_fd(-1)
            for signum in _TOUCHED_SIGNALS:
                signal.signal(signum, signal.SIG_DFL)
            os.setsid()
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.chdir(self._cwd)
            os.write(news, READY)
            if os.read(gate, 1) != GO:
                os._exit(0)
            filename = self._argv[0]
            os.execvpe(filename, self._argv, self._environment)  # noqa: S606 - the point of it all
        except OSError as error:
            os.write(news, marshal.dumps((error.errno, filename[:1024])))  # one atomic write
        finally:
            os._exit(127)

    def _open_gate(self) -> bool:
        """Report the start and wait for `GO`; False if there is nothing to be run (any more)."""
        while not (ready := self._wait(None, *self._owner, self._news) - {self._wakeup}):
            pass  # a child changed: what that means is in the news
        if self._news not in ready:
            return False
        news = os.read(self._news, 4096)
        if news != READY:
            self._report_failure(news)
            return False
        _tell(self._wire, "started", self._leader, started_at(self._leader), os.getpid(), started_at(os.getpid()))
        while not (ready := self._wait(None, *self._owner) & self._owner):
            if self._has_exited():
                _tell(self._wire, "failed", errno.ECHILD, os.fsencode("the gate"))
                return False
        if self._wire.fileno() not in ready or self._wire.recv(1) != GO:
            return False
        self._began = time.monotonic()
        with contextlib.suppress(BrokenPipeError):  # it was killed meanwhile: `_watch` finds its status
            os.write(self._gate, GO)
        os.close(self._gate)
        return True

    def _report_failure(self, news: bytes) -> None:
        number, filename = marshal.loads(news) if news else (errno.ECHILD, b"the gate")  # noqa: S302 - from our own fork
        _tell(self._wire, "failed", number, filename)

    def _let_go(self) -> bool:
        """Tell the owner that its job has begun, and belong to nobody from now on; False if it could not begin."""
        while self._news not in self._wait(None, self._news):
            pass  # a child changed, which the news will tell
        if news := os.read(self._news, 4096):
            self._report_failure(news)
            self._write_record(None, 0.0, is_ended=False)
            return False
        _tell(self._wire, "begun")
        self._wire.close()
        self._owner = set()
        return True

    def _write_record(self, code: int | None, duration: float, *, is_ended: bool) -> None:
        """Put on disk how the job ended: JSON, whole or not at all."""
        assert self._record is not None
        number = "null" if code is None else str(code)
        text = f'{{"code": {number}, "duration": {duration:.6f}, "was_ended": {"true" if is_ended else "false"}}}\n'
        with contextlib.suppress(OSError):  # no room, or no folder any more: whoever looks finds the job lost
            draft = self._record + b".new"
            file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.write(file, text.encode())
            os.fsync(file)
            os.close(file)
            os.rename(draft, self._record)  # noqa: PTH104 - as above, and as below
            folder = os.open(os.path.dirname(self._record), os.O_RDONLY)  # noqa: PTH120 - bytes, without pathlib
            os.fsync(folder)

    def _watch(self) -> bool:
        """Wait until the command exits or its end is wanted; return whether it has to be ended."""
        ready: set[int] = set()
        while not self._has_exited():  # looked at first: to exit at the deadline is not to be ended by it
            if ready & self._owner or self._is_told_to_end:
                return True
            # Only now: what woke us before, at the gate, may have told of the exit, too, and nothing else would.
            ready = self._wait(None if self._log is None else LOOK_EVERY, *self._owner)
            self._trim_log()
        return False

    def _trim_log(self) -> None:
        if self._log is not None and self._punch is not None:
            with contextlib.suppress(OSError):  # no holes in this file system, or no room for a line
                trim(self._log, self._punch)

    def _has_exited(self) -> bool:
        """Reap whoever is ours and has exited; return whether the command itself has."""
        with contextlib.suppress(ChildProcessError):
            while (reaped := os.waitpid(-1, os.WNOHANG))[0]:
                if reaped[0] == self._leader:
                    self._status = reaped[1]
        return self._status is not None

    def _end(self, *, is_ended: bool) -> None:
        now = time.monotonic()
        if not is_ended and not self._report_exit(now, is_ended=False):
            return
        ending = Ending(term_at=now if is_ended else now + LINGER, grace=self._grace)
        is_told, was_signalled, pause = not is_ended, False, 0.002
        while not self._is_nobody_left():
            alive = self._alive(ending)
            now = time.monotonic()
            # Asked last of all: who exits before the first signal was not ended by it, deadline or not.
            if self._has_exited() and not is_told:
                is_told = self._report_exit(now, is_ended=was_signalled)
            was_signalled = is_ended
            # The group's number is surely its own while its leader has not been reaped.
            if ending.step(alive, now, group=None if self._status is not None else self._leader):
                break
            if not (alive or self._is_subreaper or self._status is None):
                break  # zombies that are not ours to reap, as far as this platform can tell
            self._wait(pause)
            pause = min(pause * 2, 0.05)
        if self._status is not None and not is_told:
            self._report_exit(time.monotonic(), is_ended=was_signalled)
        rows = [
            (each.pid, each.command, each.session, each.how)
            for each in ending.ended()
            # Ended together with its command: worth a word only if it had run away, or would not go.
            if not is_ended or each.session != self._leader or each.how in ("refused", "stuck")
        ]
        _tell(self._wire, "done", rows[:REPORTED], len(rows))
        if self._record is not None:
            self._trim_log()
            code = None if self._status is None else os.waitstatus_to_exitcode(self._status)
            self._write_record(code, time.monotonic() - self._began, is_ended=was_signalled)

    def _report_exit(self, now: float, *, is_ended: bool) -> bool:
        assert self._status is not None
        if news := os.read(self._news, 4096):  # its end of the pipe is gone: by exec, or with the process
            self._report_failure(news)
            return False
        _tell(self._wire, "exited", os.waitstatus_to_exitcode(self._status), now - self._began, is_ended)
        return True

    def _is_nobody_left(self) -> bool:
        self._has_exited()
        if self._status is None:
            return False
        try:
            if self._is_subreaper:
                # Whoever lives below a subreaper hangs below one of its children: no child, nobody. Exact, and cheap.
                os.waitpid(-1, os.WNOHANG)
            else:
                os.killpg(self._leader, 0)
        except (ChildProcessError, ProcessLookupError):
            return True
        except PermissionError:
            pass  # somebody, though not ours to signal
        return False

    def _alive(self, ending: Ending) -> list[Seen]:
        processes = table()
        mine = below(processes, os.getpid())
        if not self._is_subreaper:
            mine |= {pid: s for pid, s in processes.items() if s.group == self._leader or ending.knows(s)}
        # A zombie that is our child and could not be reaped has threads that still run.
        return [seen for seen in mine.values() if not seen.is_zombie or seen.parent == os.getpid()]

    def _wait(self, seconds: float | None, *fds: int) -> set[int]:
        """Sleep until a descriptor is ready (or at its end), a child changed, or the time is over."""
        poll = select.poll()
        for fd in (*fds, self._wakeup):
            poll.register(fd, select.POLLIN)
        ready = {fd for fd, _ in poll.poll(None if seconds is None else max(1, int(seconds * 1000)))}
        if self._wakeup in ready:
            self._is_told_to_end |= END_JOB in os.read(self._wakeup, 4096)
        return ready


def main() -> None:
    """Run the launcher on the socket that is standard input."""
    os.setsid()  # an interrupt typed at the terminal is for the owner, who knows what to do about its commands
    for signum in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        if signal.getsignal(signum) == signal.SIG_IGN:
            signal.signal(signum, signal.SIG_DFL)  # ignored by whoever started us: not by the commands
    # The last two are an error of what is written, not the writer's death: to a dead owner, or to a full file.
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
        return None  # a kernel before 5.3, or a sandbox: the wire has to do
    if os.getppid() != pid:
        sys.exit(0)  # it died while we started, and the pid is another's
    return owner
