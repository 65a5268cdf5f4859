"""Tools for background jobs: list them, read their output, end them (T6).

Rules
- A call sees the jobs of its own session only. A parent learns from its sub-agent which jobs that began.
- None of these tools asks a person. A session that was allowed to begin a job may look at it and end it: ending only
  undoes what was allowed, and a call cannot name a job of another session.
- A tool looks at the process itself: it may have ended a moment ago, before its end was journaled.
- A job of another machine cannot be looked at: its last known state is shown, and a call on it is refused.
- A job that could not begin is no job. The journal names it, since it was on disk before it was to begin.
"""

import base64
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from msgspec.structs import replace

from supervisor.core.declarations.tool_context import ProcessToolContext, ToolContext
from supervisor.core.declarations.tool_spec import tool
from supervisor.core.errors import ToolFailed
from supervisor.core.text.visible import visible
from supervisor.core.values import JobView, ToolResult
from supervisor.system.identity import is_elsewhere
from supervisor.system.threads import in_thread
from supervisor.tools.background import Piece, end_job, is_guarded, look_at, note_given, read_log
from supervisor.tools.output import CAP_CHARACTERS, Output, without_split_end, without_split_start

OUTPUT_LIMIT_BYTES: Final = 30_000  # bytes of a log that one call returns by default
LARGEST_OUTPUT_BYTES: Final = 2**20  # the largest `limit`: all of it is in memory, and in the journal


@tool(policy="allow")
async def jobs(context: ToolContext) -> ToolResult[list[JobView]]:
    """List the background jobs of this session, including those that have ended."""
    views = await _views(context)
    return ToolResult(kind="ok", content="\n".join(line_of(view) for view in views) or "no jobs", value=views)


@tool(policy="allow")
async def job_output(
    context: ToolContext, job: str, offset: int | None = None, limit: int = OUTPUT_LIMIT_BYTES
) -> ToolResult[str]:
    """Return the output of a job: the last `limit` bytes (1 MiB at most), or those from `offset` on.

    The middle of a long log is not kept. `details`: state, exit_code, signal, offset (of the first byte returned),
    next_offset, omitted (bytes before it that were requested, and are gone), size (all bytes ever written). Bytes that
    are not text are described in one line, and details have them as output_base64. The last line of the content says
    state, exit code, size and next_offset, too, for readers of the content alone.
    """
    view = await find_job(context, job)
    if limit <= 0 or (offset is not None and offset < 0):
        raise ToolFailed("limit and offset are numbers of bytes", reason="invalid_arguments", effect="none")
    return await output_result(context, view, min(limit, LARGEST_OUTPUT_BYTES), offset)


async def output_result(
    context: ToolContext,
    view: JobView,
    limit: int,
    offset: int | None,
    more: Mapping[str, Any] = MappingProxyType({}),
    remark: str = "",
) -> ToolResult[str]:
    """Return a piece of a job's log as a result, and note that the session has been given it. `more`: further details,
    `remark`: further words."""
    try:
        piece = await in_thread(read_log, view.log, limit, offset)
    except OSError as error:
        raise ToolFailed(f"the log cannot be read: {error}", reason="log", effect="none") from None
    raw, start = _whole_characters(piece, is_complete=view.state != "running", is_end=offset is None)
    output = Output(head=raw, total=len(raw))
    shown = await in_thread(output.show, max(CAP_CHARACTERS, limit))
    text = shown.text
    gone = f"[{piece.omitted} bytes before this are gone: of a long log the middle is not kept]\n"
    details: dict[str, Any] = {
        "state": view.state,
        "exit_code": view.exit_code,
        "signal": view.signal,
        "offset": start,
        "next_offset": start + len(raw),
        "omitted": piece.omitted,
        "size": piece.size,
        **more,
    }
    if shown.is_drawn:
        details["rendered"] = True
    if not output.is_text:
        details["output_base64"] = base64.b64encode(raw).decode()
    content = (gone if piece.omitted else "") + text
    content += "\n" if content and not content.endswith("\n") else ""
    content += f"[{remark}{how_it_is(view)}; {piece.size} bytes so far; next offset {details['next_offset']}]"
    note_given(view, context.operation, start, details["next_offset"], piece.size)
    return ToolResult(kind="ok", content=content, value=text, details=details)


def _whole_characters(piece: Piece, *, is_complete: bool, is_end: bool) -> tuple[bytes, int]:
    """Return a piece and its offset, without the halves of a character at its edges that the next or previous piece
    has."""
    raw, start = piece.raw, piece.start
    if is_end and start > 0:
        raw = without_split_start(raw)
        start += len(piece.raw) - len(raw)
    is_last = start + len(raw) == piece.size
    if not (is_last and is_complete):
        whole = without_split_end(raw)
        raw = whole if whole or is_last else raw  # a limit smaller than a character must not stop the reader
    return raw, start


@tool(policy="allow")
async def job_kill(context: ToolContext, job: str) -> ToolResult[JobView]:
    """End a job and everything it started: SIGTERM, and SIGKILL after 2 seconds.

    A job that has already ended is not changed. `details`: found (ended, gone, refused or not ours), guarded (False:
    its warden was gone, and processes that it had daemonized may still run).
    """
    before = await find_job(context, job)
    if before.state != "running":
        return ToolResult(kind="ok", content=line_of(before), value=before, details={"found": "gone", "effect": "none"})
    guarded = await in_thread(is_guarded, before)
    found = await end_job(before, f"job_kill in session {context.session}")
    after = await view_of(before)
    if after.state == "running":
        raise ToolFailed(f"job {job} could not be ended: {found}", reason="refused", found=found)
    remark = "" if guarded else "\n[its guard was gone before: processes that it had daemonized may still run]"
    details = {"found": found, "guarded": guarded}
    return ToolResult(kind="ok", content=line_of(after) + remark, value=after, details=details)


async def view_of(job: JobView) -> JobView:
    """Return a job with its state now. An end that is journaled is not looked at again."""
    if job.state != "running" or is_elsewhere(job.host):
        return job
    seen = await in_thread(look_at, job)
    if seen.state == "running":
        return job
    duration = seen.end.duration if seen.end is not None else None
    return replace(job, state=seen.how, exit_code=seen.exit_code, signal=seen.signal, duration=duration, by=seen.by)


def line_of(view: JobView) -> str:
    """Return one line about a job."""
    return f"{view.job}  {how_it_is(view)}  process {view.process}  {visible(' ⏎ '.join(view.command.splitlines()))}"


def how_it_is(view: JobView) -> str:
    """Return the state of a job in words."""
    if view.signal is not None:
        return f"{view.state} by signal {view.signal}"
    return view.state if view.exit_code is None else f"{view.state} with exit code {view.exit_code}"


async def find_job(context: ToolContext, job: str) -> JobView:
    """Return a job of the call's session, with its state now. Raises ToolFailed, which names those that there are."""
    known = _jobs_of(context).get(job)
    if known is not None and known.state == "running" and is_elsewhere(known.host):
        why = f"job {job} was begun on {known.host}, and only a process there can look at it"
        raise ToolFailed(why, reason="elsewhere", effect="none")
    if known is not None and (found := await view_of(known)).state != "failed":
        return found
    others = ", ".join(view.job for view in await _views(context)) or "none"
    raise ToolFailed(f"this session has no job {job}; it has {others}", reason="not_found", effect="none")


async def _views(context: ToolContext) -> list[JobView]:
    views = [await view_of(job) for job in _jobs_of(context).values()]
    return [view for view in views if view.state != "failed"]


def _jobs_of(context: ToolContext) -> Mapping[str, JobView]:
    """Return the jobs of the call's session. These tools start no process, so they do not declare that they do."""
    assert isinstance(context, ProcessToolContext)
    return context.jobs
