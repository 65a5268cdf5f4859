"""A background job as a process: it starts like any other process, at its gate, and outlives the call once it
has begun.

Theory: a job is to its warden what a foreground command is to its call. The warden stays the parent of everything
that the job starts, but it no longer ends with us. All facts for a later process are therefore on disk: the journal
identifies job and warden by pid and start time, the warden writes how the job ended, and the log has the output.

Rules
- The job's folder (0700) holds `session`, the id of its session; `log`, its output (0600; see `log_limit`); `end`,
  which the warden writes when no process of the job is left; `by`, who asked for its end, if a caller did; `told`, once
  the end is journaled; `given`, the offset up to which its session has been given the log; and `input`, a named pipe,
  if the job takes input.
- The warden holds the pipe open, so a later process can send, too. `END_INPUT`, a signal to the warden, ends it. The
  pipe is then named `input.ended`.
- The job writes to the log file itself. A command that opens its output again (`> /dev/stderr`, unlike `>&2`) empties
  the file, as it would any file that output is sent to. A pipe would prevent that, but it would end with its reader.
- A job is running if its warden or its own process is alive, by pid *and* start time. If not, `end` says how it ended.
  A job without `end` is lost: it was killed together with its warden, or its machine went down.
- A job ends when its command exits. Processes that the command leaves behind are ended, as after any command.
- A job that was given a deadline is ended by its warden, also after our death. Without one it goes on.
- A job is ended by a signal to its warden. If the warden is gone, its process is ended by pid.
"""

import os
import secrets
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Final, Literal, NamedTuple, Protocol

import anyio
import msgspec

from supervisor.system.access import OTHERS_WRITE, why_not_ours
from supervisor.system.threads import in_thread
from supervisor.tools.descendants import is_alive, send_signal
from supervisor.tools.guarded import GuardedProcess, encode_request
from supervisor.tools.log_limit import read_kept
from supervisor.tools.orphaned import Answer, end_orphaned_process
from supervisor.tools.output import HeadAndTail
from supervisor.tools.termination import GIVE_UP_AFTER_SECONDS
from supervisor.tools.warden import END_JOB

GRACE_SECONDS: Final = 2.0  # seconds from SIGTERM to SIGKILL
_MARGIN_SECONDS: Final = 10.0  # seconds that a warden on a busy machine gets beyond its own bounds
_PAUSE_SECONDS: Final = 0.02  # seconds between two looks at a job that is ending
SESSION: Final = "session"
TOLD: Final = "told"
INPUT: Final = "input"
INPUT_ENDED: Final = "input.ended"
_ID_LETTERS: Final = "abcdefghijkmnpqrstuvwxyz23456789"  # without letters that sound or look alike


class End(msgspec.Struct, frozen=True):
    """How a job ended, as its warden wrote it. `code`: negative for a signal; None if it never began or did not die."""

    code: int | None
    duration: float
    was_ended: bool
    deadline: float | None = None
    """The deadline in seconds at which it was ended, if that is why."""


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a job at one look. `end` is None while the job runs, and if it is lost."""

    state: Literal["running", "ended", "lost"]
    end: End | None = None
    by: str | None = None

    @property
    def how(self) -> Literal["exited", "ended", "failed", "lost"]:
        """How a job that is over has ended, in the words of JobEnded."""
        if self.end is None:
            return "lost" if self.by is None else "ended"
        if self.end.was_ended:
            return "ended"
        return "failed" if self.end.code is None else "exited"

    @property
    def exit_code(self) -> int | None:
        return self.end.code if self.end is not None and self.end.code is not None and self.end.code >= 0 else None

    @property
    def signal(self) -> int | None:
        return -self.end.code if self.end is not None and self.end.code is not None and self.end.code < 0 else None


def make_job_folder(parent: str, session: str) -> tuple[str, str]:
    """Return the id of a new job of a session, and its folder. Raises OSError; PermissionError if other users could
    write into the parent folder, and so replace a log or an end."""
    Path(parent).mkdir(mode=0o700, parents=True, exist_ok=True)
    if (why := why_not_ours(Path(parent), OTHERS_WRITE)) is not None:
        raise PermissionError(why)
    while True:
        job = "".join(secrets.choice(_ID_LETTERS) for _ in range(12))
        folder = Path(parent, job)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            _write(folder / SESSION, session)
            return job, str(folder)


class BackgroundProcess(GuardedProcess):
    """A job that waits at its gate, or has begun. Leaving the context before `begin` runs nothing; after it, the job
    goes on."""

    def __init__(
        self,
        command: str | Sequence[str],
        folder: str,
        *,
        cwd: str | None,
        env: Mapping[str, str] | None,
        deadline: float | None = None,
        takes_input: bool = False,
    ) -> None:
        record = str(Path(folder, "end").absolute())
        request = encode_request(command, cwd, env, GRACE_SECONDS, record=record, deadline=deadline)
        super().__init__(request, grace=GRACE_SECONDS, output=HeadAndTail(0), watcher=None)
        self.log = str(Path(folder, "log").absolute())
        self._takes_input = takes_input

    def _open_streams(self, theirs: ExitStack) -> list[int]:
        output = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        theirs.callback(os.close, output)
        return [*([self._open_input(theirs)] if self._takes_input else ()), output]

    def _open_input(self, theirs: ExitStack) -> int:
        path = Path(self.log).with_name(INPUT)
        with suppress(FileExistsError):  # the attempt before, whose warden was killed
            os.mkfifo(path, 0o600)
        reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # it has no writer yet: the warden is one
        theirs.callback(os.close, reader)
        os.set_blocking(reader, True)
        return reader

    async def _conclude(self) -> None:
        if not self.is_released:
            await super()._conclude()


class JobProcess(Protocol):
    """A job's processes on its host, and the path of its log. JobStarted and JobView have these fields."""

    @property
    def log(self) -> str: ...
    @property
    def process(self) -> int: ...
    @property
    def process_started_at(self) -> float | None: ...
    @property
    def guard(self) -> int: ...
    @property
    def guard_started_at(self) -> float | None: ...


def look_at(job: JobProcess) -> Seen:
    """Return the state of a job. Blocks for some milliseconds where there is no /proc."""
    folder = Path(job.log).parent
    # The second look at `end` catches a warden that wrote it and exited between the first look and the pid check.
    for is_last in (False, True):
        if (end := _read_end(folder)) is not None:
            at_deadline = None if end.deadline is None else f"its deadline of {end.deadline:g} s"
            return Seen(state="ended", end=end, by=at_deadline or _read_by(folder))
        if not is_last and any(is_alive(pid, start) for pid, start in _processes(job)):
            return Seen(state="running", by=_read_by(folder))
    return Seen(state="lost", by=_read_by(folder))


def is_guarded(job: JobProcess) -> bool:
    """Return whether a job's warden is alive; it finds every process that the job started. Blocks like `look_at`."""
    return is_alive(job.guard, job.guard_started_at)


async def end_job(job: JobProcess, by: str) -> Answer:
    """End a job and all it started. Returns when that is done or cannot be done (see `end_orphaned_process`)."""
    folder = Path(job.log).parent
    with suppress(OSError):
        _write(folder / "by", by)
    answer = await in_thread(send_signal, (job.guard, job.guard_started_at), END_JOB)
    if answer == "refused":
        return "refused"
    give_up_at = time.monotonic() + GRACE_SECONDS + GIVE_UP_AFTER_SECONDS + _MARGIN_SECONDS
    while answer == "sent" and time.monotonic() < give_up_at:
        has_guard = await in_thread(is_guarded, job)
        if (await in_thread(look_at, job)).state != "running":
            return "ended"
        if not has_guard:
            break
        await anyio.sleep(_PAUSE_SECONDS)
    return await end_orphaned_process(job.process, job.process_started_at, GRACE_SECONDS)


class Piece(NamedTuple):
    """A part of a log. `omitted` bytes before `start` were requested, too, but are no longer kept."""

    raw: bytes
    start: int
    omitted: int
    size: int
    """The size of the whole log: all bytes ever written."""


def read_log(log: str, limit: int, offset: int | None = None) -> Piece:
    """Return up to `limit` bytes of a log: from `offset` on, or else its end. Raises OSError."""
    with Path(log).open("rb", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        asked = max(0, size - limit) if offset is None else min(offset, size)
        raw, start = read_kept(file.fileno(), asked, limit)
        return Piece(raw, start, start - asked, max(size, start + len(raw)))


def given_until(job: JobProcess, operation: str, size: int) -> int:
    """Return the offset from which on the session of a job has not been given its log, which has a size.

    `operation`: the call that asks. A call that runs again after a crash gets what it got before. Of a log that the job
    has emptied all is new.
    """
    try:
        asked, start, end = Path(job.log).with_name("given").read_text("utf-8").rsplit(" ", 2)
        given = int(start if asked == operation else end)
    except (OSError, ValueError):
        return 0
    return given if given <= size else 0


def note_given(job: JobProcess, operation: str, start: int, end: int, size: int) -> None:
    """Note that a call gives the log from `start` to `end` to the session of a job; it may have been given more."""
    end = max(end, given_until(job, "", size))
    draft = Path(job.log).with_name("given.new")
    with suppress(OSError):  # no room: a later call gives the same again
        _write(draft, f"{operation} {start} {end}")
        draft.replace(draft.with_name("given"))


def _write(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text, "utf-8")


def _processes(job: JobProcess) -> tuple[tuple[int, float | None], ...]:
    return (job.guard, job.guard_started_at), (job.process, job.process_started_at)


def _read_end(folder: Path) -> End | None:
    try:
        return msgspec.json.decode((folder / "end").read_bytes(), type=End)
    except (OSError, msgspec.MsgspecError):
        return None


def _read_by(folder: Path) -> str | None:
    try:
        return (folder / "by").read_text("utf-8", "backslashreplace")
    except OSError:
        return None
