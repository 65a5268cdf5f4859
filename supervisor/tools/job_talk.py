"""Tools that talk with a background job: they wait for its end or for its output, and write to its input (T6).

Theory: a model has no sleep, and a job may live for hours. `job_wait` is its way to wait. The wait is a call with a
bound of its own, which counts in no budget of the run (W2, W5), and acts on nothing. So after a crash it waits again.
What is new is what the session has not been given: `job_output` and `job_wait` note that in the job's folder.

Rules
- `job_wait` asks no person, since the session may read its job. Each text to a job is a call of its own, which rules
  and people see: a text for a shell is a command.
- A pattern is a text in one line of the output, where `*` is any text. It is no regular expression: a hostile one could
  hold this process for ever. The search is linear, resumes where it stopped, and ends in time, however much comes.
- A text is sent as it is, without a line end of ours. A text that a crash cut off is lost, and is not sent again.
"""

import errno
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final

import anyio

from supervisor.core.declarations.tool_context import ToolContext
from supervisor.core.declarations.tool_spec import tool
from supervisor.core.errors import ToolFailed
from supervisor.core.values import JobView, ToolResult
from supervisor.system.threads import in_thread
from supervisor.tools.background import INPUT, INPUT_ENDED, given_until, read_log
from supervisor.tools.descendants import send_signal
from supervisor.tools.session_jobs import OUTPUT_LIMIT_BYTES, find_job, how_it_is, output_result, view_of
from supervisor.tools.warden import END_INPUT

LONGEST_WAIT_SECONDS: Final = 3600.0
WAIT_SECONDS: Final = 30.0
SEND_TIMEOUT_SECONDS: Final = 10.0
"""Seconds in which a job must read what is sent to it."""
_FIRST_PAUSE_SECONDS: Final = 0.01
_LONGEST_PAUSE_SECONDS: Final = 0.2
_PIECE_BYTES: Final = 2**20
_LONGEST_LINE_BYTES: Final = 2**16
"""Bytes of a line that does not end, in which a pattern is searched for across two reads."""


class Search:
    """The search for a pattern in a log that grows."""

    def __init__(self, pattern: str, offset: int) -> None:
        self._parts = [part.encode("utf-8", "surrogateescape") for part in pattern.split("*") if part]
        self._line = b""
        self.offset = offset

    def is_found_in(self, log: str) -> bool | None:
        """Read on, up to a MiB; return whether the pattern was found, None if not yet. Raises OSError."""
        piece = read_log(log, _PIECE_BYTES, self.offset)
        raw = self._line + piece.raw
        lines = raw.split(b"\n") if all(part in raw for part in self._parts) else ()
        self._line = raw[raw.rfind(b"\n") + 1 :][-_LONGEST_LINE_BYTES:]
        self.offset = piece.start + len(piece.raw)
        return any(map(self._fits, lines)) or (None if piece.raw else False)

    def _fits(self, line: bytes) -> bool:
        at = 0
        for part in self._parts:
            if (at := line.find(part, at)) < 0:
                return False
            at += len(part)
        return True


@tool(policy="allow", timeout=None, idempotent=True)
async def job_wait(
    context: ToolContext, job: str, seconds: float = WAIT_SECONDS, until: str = "exit", offset: int | None = None
) -> ToolResult[str]:
    """Wait until a job has ended, or for `seconds` (3600 at most); return its new output, the last 30,000 bytes of it.

    `until`: "exit" waits for the end of the job; "output" for any new output; another text for a line of new output
    that holds it, in which `*` is any text. New is what this session has not been given by `job_wait` or `job_output`,
    or what comes from `offset` on. The wait ends when the job ends, whatever it waits for.

    `details`: met (whether it came), until, and those of `job_output`. The last line of the content says so, too.
    """
    if not 0 <= seconds <= LONGEST_WAIT_SECONDS or not until.strip("*") or (offset is not None and offset < 0):
        raise ToolFailed(
            f"seconds is a number from 0 to {LONGEST_WAIT_SECONDS:g}, until a text, offset a number of bytes",
            reason="invalid_arguments",
            effect="none",
        )
    record = await find_job(context, job)
    try:
        size = await in_thread(_size_of, record.log)
        start = given_until(record, context.operation, size) if offset is None else offset
        view, is_met = await _wait(record, seconds, _test(until, record.log, start))
        size = await in_thread(_size_of, record.log)
    except OSError as error:
        raise ToolFailed(f"the log cannot be read: {error}", reason="log", effect="none") from None
    is_met = is_met or (until == "exit" and view.state != "running")
    is_much = size - start > OUTPUT_LIMIT_BYTES
    remark = "" if is_met else f"{_AWAITED.get(until, repr(until))} has not come within {seconds:g} s; "
    if not is_met and view.state != "running":
        remark = f"the job ended before {_AWAITED.get(until, repr(until))} came; "
    if is_much:
        remark += f"{size - start - OUTPUT_LIMIT_BYTES} bytes of new output, from offset {start} on, are not shown; "
    more = {"until": until, "met": is_met}
    return await output_result(context, view, OUTPUT_LIMIT_BYTES, None if is_much else start, more, remark)


job_wait.waits = True
_AWAITED: Final = {"exit": "its end", "output": "new output"}


Test = Callable[[], bool | None]
"""Whether what a call waits for has come; None if that takes another look at what is there. It runs in a thread."""


def _test(until: str, log: str, start: int) -> Test:
    match until:
        case "exit":
            return lambda: False
        case "output":
            return lambda: _size_of(log) > start
    return partial(Search(until, start).is_found_in, log)


def _size_of(log: str) -> int:
    return Path(log).stat().st_size


async def _wait(record: JobView, seconds: float, has_come: Test) -> tuple[JobView, bool]:
    """Wait; return the job as it is then, and whether the test has been true."""
    give_up_at, pause = anyio.current_time() + seconds, _FIRST_PAUSE_SECONDS
    while True:
        view = await view_of(record)  # first: what it wrote before it ended is in the log then
        if came := await in_thread(has_come):
            return view, True
        left = give_up_at - anyio.current_time()
        if left <= 0 or (came is False and view.state != "running"):
            return view, False
        if came is None:
            continue
        await anyio.sleep(min(pause, left))
        pause = min(pause * 1.5, _LONGEST_PAUSE_SECONDS)


@tool
async def job_send(context: ToolContext, job: str, text: str = "", eof: bool = False) -> ToolResult[None]:
    """Write a text to the input of a job that was begun with `stdin=True`; asks a person first.

    The text is sent as it is: most programs wait for a line end, so end it with one. `eof` ends the input after it.
    `job_wait(job, until="output")` waits for what the job answers. `details`: sent (bytes), eof.
    """
    if not text and not eof:
        raise ToolFailed("there is nothing to send", reason="invalid_arguments", effect="none")
    view = await find_job(context, job)
    if view.state != "running":
        raise ToolFailed(f"job {job} has {how_it_is(view)}", reason="ended", effect="none")
    raw = text.encode("utf-8", "surrogateescape")
    pipe = _open_input(view)
    try:
        sent = await _write(pipe, raw)
    except BrokenPipeError:
        raise ToolFailed(f"job {job} {_NO_READER}", reason="closed", effect="maybe") from None
    finally:
        os.close(pipe)
    if sent < len(raw):
        text = f"job {job} does not read its input: {sent} of {len(raw)} bytes were sent in {SEND_TIMEOUT_SECONDS:g} s"
        raise ToolFailed(text, reason="full", effect="done" if sent else "none", sent=sent)
    if eof:
        await in_thread(_end_input, view)
    ended = "; its input has ended" if eof else "" if text.endswith("\n") else ", without a line end"
    content = f"[{len(raw)} bytes sent to job {job}{ended}]"
    return ToolResult(kind="ok", content=content, value=None, details={"effect": "done", "sent": len(raw), "eof": eof})


_NO_READER: Final = "reads no input any more"


def _open_input(view: JobView) -> int:
    """Return a descriptor of a job's input. Raises ToolFailed if it has none, or has none any more."""
    path = Path(view.log).with_name(INPUT)
    try:
        return os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        is_ended = path.with_name(INPUT_ENDED).exists()
        why, reason = ("has had the end of its input", "closed") if is_ended else (_WITHOUT_INPUT, "no_input")
        raise ToolFailed(f"job {view.job} {why}", reason=reason, effect="none") from None
    except OSError as error:
        why = _NO_READER if error.errno == errno.ENXIO else f"cannot be written to: {error.strerror}"
        raise ToolFailed(f"job {view.job} {why}", reason="closed", effect="none") from None


_WITHOUT_INPUT: Final = "takes no input; begin it with background=True, stdin=True"


async def _write(pipe: int, raw: bytes) -> int:
    """Write to a pipe as its reader reads; return how many bytes it took in time."""
    rest = memoryview(raw)
    with anyio.move_on_after(SEND_TIMEOUT_SECONDS):
        while rest:
            try:
                rest = rest[os.write(pipe, rest) :]
            except BlockingIOError:
                await anyio.wait_writable(pipe)
    return len(raw) - len(rest)


def _end_input(view: JobView) -> None:
    """Tell the warden, which holds the input open. A warden that is gone holds it no more."""
    send_signal((view.guard, view.guard_started_at), END_INPUT)
    path = Path(view.log).with_name(INPUT)
    with suppress(OSError):
        path.rename(path.with_name(INPUT_ENDED))
