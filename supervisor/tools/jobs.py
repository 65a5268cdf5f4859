"""Tools for background jobs: list them, read what they put out, end them (T6).

Rules
- A call sees the jobs of its own session, and no others: what a sub-agent began, its parent learns from the sub-agent.
- None of them asks a person. Whoever was allowed to begin a job may look at it and end it; ending it can only undo what
  was allowed, and a job of anybody else cannot be named.
- A job is looked at when it is asked about: its process may have ended a moment before its session was told.
"""

from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec
from msgspec.structs import replace

from supervisor.core.errors import ToolFailed
from supervisor.core.session import Job
from supervisor.core.tool_spec import tool
from supervisor.core.toolcontext import ToolContext
from supervisor.core.values import ToolResult
from supervisor.core.visible import visible
from supervisor.tools.background import Piece, end_job, is_guarded, look_at, read_log
from supervisor.tools.output import without_split_end, without_split_start

OUTPUT_LIMIT: Final = 30_000  # bytes of a log that one call returns, unless it says otherwise
LARGEST_OUTPUT: Final = 2**20  # however much it says: all of it is in memory, and in the journal


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A background job as it is now. The fields are a JSON contract."""

    job: str
    state: str
    """running, exited, ended (by us), failed (it could not begin), lost."""
    command: str
    pid: int
    log: str
    exit_code: int | None = None
    signal: int | None = None
    duration: float | None = None
    """Seconds from its beginning to its end."""
    by: str | None = None
    """Who ended it."""
    keep: bool = False
    """Whether it outlives its session."""


@tool(approval="never")
async def jobs(context: ToolContext) -> ToolResult[list[JobView]]:
    """List the background jobs of this session, those that have ended too."""
    views = [await view_of(job) for job in context.jobs.values()]
    return ToolResult(kind="ok", content="\n".join(line_of(view) for view in views) or "no jobs", value=views)


@tool(approval="never")
async def job_output(
    context: ToolContext, job: str, offset: int | None = None, limit: int = OUTPUT_LIMIT
) -> ToolResult[str]:
    """Return what a job has put out: the last `limit` bytes (1 MiB at most), or those from `offset` on.

    Of a long log the middle is not kept. `details`: state, exit_code, signal, offset (of the first byte returned),
    next_offset, omitted (bytes before it that were asked for, and are gone), size (bytes that were ever put out). For
    those who get the content alone, its last line says state, exit code, size and next_offset.
    """
    view = await view_of(_find(context, job))
    if limit <= 0 or (offset is not None and offset < 0):
        raise ToolFailed("limit and offset are numbers of bytes", reason="invalid_arguments", effect="none")
    try:
        piece = await anyio.to_thread.run_sync(read_log, view.log, min(limit, LARGEST_OUTPUT), offset)
    except OSError as error:
        raise ToolFailed(f"the log cannot be read: {error}", reason="log", effect="none") from None
    raw, start = _whole_characters(piece, is_complete=view.state != "running", is_end=offset is None)
    text = raw.decode("utf-8", "backslashreplace")
    gone = f"[{piece.omitted} bytes before this are gone: of a long log the middle is not kept]\n"
    details: dict[str, Any] = {
        "state": view.state,
        "exit_code": view.exit_code,
        "signal": view.signal,
        "offset": start,
        "next_offset": start + len(raw),
        "omitted": piece.omitted,
        "size": piece.size,
    }
    content = (gone if piece.omitted else "") + text
    content += "\n" if content and not content.endswith("\n") else ""
    content += f"[{_how(view)}; {piece.size} bytes so far; next offset {details['next_offset']}]"
    return ToolResult(kind="ok", content=content, value=text, details=details)


def _whole_characters(piece: Piece, *, is_complete: bool, is_end: bool) -> tuple[bytes, int]:
    """Return a piece and where it begins, less half a character that the next piece begins with, or one before."""
    raw, start = piece.raw, piece.start
    if is_end and start > 0:
        raw = without_split_start(raw)
        start += len(piece.raw) - len(raw)
    is_last = start + len(raw) == piece.size
    if not (is_last and is_complete):
        whole = without_split_end(raw)
        raw = whole if whole or is_last else raw  # a limit smaller than a character must not stop the reader
    return raw, start


@tool(approval="never")
async def job_kill(context: ToolContext, job: str) -> ToolResult[JobView]:
    """End a job and everything it started: SIGTERM, and SIGKILL after 2 seconds.

    A job that has ended already stays as it was. `details`: found (ended, gone, refused or not ours), guarded (False:
    its guard was gone, and what it had daemonized may still run).
    """
    record = _find(context, job)
    before = await view_of(record)
    if before.state != "running":
        return ToolResult(kind="ok", content=line_of(before), value=before, details={"found": "gone", "effect": "none"})
    guarded = await anyio.to_thread.run_sync(is_guarded, record.started)
    found = await end_job(record.started, f"job_kill in session {context.session}")
    after = await view_of(record)
    if after.state == "running":
        raise ToolFailed(f"job {job} could not be ended: {found}", reason="refused", found=found)
    remark = "" if guarded else "\n[its guard was gone before: what it had daemonized may still run]"
    details = {"found": found, "guarded": guarded}
    return ToolResult(kind="ok", content=line_of(after) + remark, value=after, details=details)


async def view_of(job: Job) -> JobView:
    """Look at a job now; what was told of its end stands."""
    began = job.started
    view = JobView(
        job=began.job,
        state="running",
        command=began.command,
        pid=began.process,
        log=began.log,
        keep=began.keep,
    )
    if (told := job.ended) is not None:
        end = (told.exit_code, told.signal, told.duration, told.by)
        return _over(view, told.how, *end)
    seen = await anyio.to_thread.run_sync(look_at, began)
    if seen.state == "running":
        return view
    duration = seen.end.duration if seen.end is not None else None
    return _over(view, seen.how, seen.exit_code, seen.signal, duration, seen.by)


def _over(
    view: JobView, how: str, exit_code: int | None, signal: int | None, duration: float | None, by: str | None
) -> JobView:
    return replace(view, state=how, exit_code=exit_code, signal=signal, duration=duration, by=by)


def line_of(view: JobView) -> str:
    """Return one line about a job."""
    return f"{view.job}  {_how(view)}  process {view.pid}  {visible(view.command)}"


def _how(view: JobView) -> str:
    if view.signal is not None:
        return f"{view.state} by signal {view.signal}"
    return view.state if view.exit_code is None else f"{view.state} with exit code {view.exit_code}"


def _find(context: ToolContext, job: str) -> Job:
    if (found := context.jobs.get(job)) is None:
        known = ", ".join(context.jobs) or "none"
        raise ToolFailed(f"this session has no job {job}; it has {known}", reason="not_found", effect="none")
    return found
