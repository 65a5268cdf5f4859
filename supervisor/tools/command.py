"""The exec tool: it asks a person, runs a command as a process of its own, and always returns (T3-T8).

Order: the process exists and waits at its gate; its pid and start time are committed with `executing`; the gate opens;
the end of the process, in whichever way, is the call's result. If we die before the gate opens, nothing has run.

A background job takes the same way to its gate, and is committed with `executing`. The call's result is that it has
begun; from then on it does not depend on the call (see `background` and `job_watch`).
"""

import base64
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import anyio

from supervisor.core.calls.folders import folder_of_call
from supervisor.core.declarations.tool_context import NewJob, ProcessToolContext
from supervisor.core.declarations.tool_spec import tool
from supervisor.core.errors import ToolFailed
from supervisor.core.text.visible import visible
from supervisor.core.values import ToolResult
from supervisor.tools.ampersand import as_job, in_background, without_ampersand
from supervisor.tools.background import BackgroundProcess, make_job_folder
from supervisor.tools.call_environment import environment_of_command
from supervisor.tools.finished import Finished, LaunchFailed, LeftBehind
from supervisor.tools.output import CAP_CHARACTERS, KEPT_BYTES
from supervisor.tools.process import Process, open_process

TIMEOUT_SECONDS: Final = 30.0  # seconds
NAMED: Final = 10  # processes that a result's content names; its details name up to 100
MOST_KEPT: Final = 3  # processes for which a result says how to keep them
LONGEST_KEPT_CHARACTERS: Final = 2_000  # characters of the commands that do
NO_OUTPUT: Final = "[no output]"
SHOWN_CHARACTERS: Final = 80  # characters of the command of each
_PLAIN: Final = re.compile(r"[\w@%+=:,./ -]{1,80}")
"""The command line of a process that means the same to a shell, and was not cut."""


@tool(name="shell", timeout=None, command="command")
async def shell(
    context: ProcessToolContext,
    command: str | list[str],
    cwd: str | None = None,
    env: dict[str, str] | None = None,
    timeout: float = TIMEOUT_SECONDS,
    background: bool = False,
    stdin: bool = False,
    notify: bool = False,
) -> ToolResult[str]:
    """Run a command and return its output; asks a person first.

    `command`: a string runs in /bin/sh, a list of words without a shell. `cwd`: the folder in which it runs, relative
    to the session's folder, which is the default: the folder in which the session was started, whichever process runs
    the call. `env`: variables to add to the supervisor's environment, from which our own secrets are removed.
    `timeout`: seconds from the start of the command until it is ended, together with everything that it started.
    `background`: begin a job, which goes on after the call. It has a deadline only if `timeout` is given. A string that
    ends in a single `&` is a job, too. `stdin`: the job takes input, from `job_send`. `notify`: the session gets a
    message when the job has ended by itself or at its deadline. No program can ask a person: editors and prompts fail
    at once.

    The result is ok when the command exits with 0; its value is the output (stdout and stderr in the order in which
    they came, as UTF-8 with other bytes escaped; capped to head and tail). Otherwise it is an error with the output.
    Output that is not text is described in one line. Escapes and redrawn lines are rendered, as a terminal shows them
    at the end. A command that leaves processes running is an error, even if it exits with 0: they are ended, and the
    result names the calls that keep them.
    `details`: exit_code, signal, duration (seconds), timeout, pid, output_bytes, truncated, refused_kills, left_behind
    (100 at most), left_behind_count, keep (the arguments of calls that keep them, if these are certain), and rendered
    (True if the text differs from what was written). For output that is not text also output_base64: the bytes that
    were kept; if it was cut, its end is in output_tail_base64.
    A job's result is ok once it has begun; `details`: job (its id), pid, log (the path of the file for its output).
    On macOS a process that leaves its session cannot be found once its parent has ended, and is not ended.
    """
    if not timeout > 0:
        raise ToolFailed(
            f"timeout must be more than 0 seconds, not {timeout}", reason="invalid_arguments", effect="none"
        )
    is_job = background or (isinstance(command, str) and without_ampersand(command) is not None)
    if (stdin or notify) and not is_job:
        raise ToolFailed(
            "stdin and notify are for jobs: pass background=True, too", reason="invalid_arguments", effect="none"
        )
    folder = folder_of_call(context.cwd, cwd)
    try:
        if is_job:
            deadline = timeout if _is_given(context, timeout) else None
            return await _begin_job(context, as_job(command), folder, env, deadline, takes_input=stdin, notify=notify)
        beat = context.heartbeat
        async with open_process(
            command,
            cwd=folder,
            env=environment_of_command(context.operation, env),
            output_limit=KEPT_BYTES,
            on_output=lambda chunk: beat(),
        ) as process:
            await context.started(process.pid, process.started_at)
            await process.release()
            kept = Kept(command, cwd, has_env=env is not None)
            return _result(await _wait(process, context, timeout, kept), process.pid, timeout, kept)
    except LaunchFailed as failure:
        where = f": {failure.filename}" if failure.filename else ""
        text = f"the command could not be started: {failure.strerror}{where}"
        raise ToolFailed(text, reason="launch", effect="none", errno=failure.errno) from None


def _is_given(context: ProcessToolContext, timeout: float) -> bool:
    """Return whether the caller of a job has named its deadline; where that is not known, whether it is unusual."""
    return timeout != TIMEOUT_SECONDS if context.given is None else "timeout" in context.given


async def _begin_job(
    context: ProcessToolContext,
    command: str | list[str],
    cwd: str,
    env: dict[str, str] | None,
    deadline: float | None,
    *,
    takes_input: bool,
    notify: bool,
) -> ToolResult[str]:
    try:
        job, folder = make_job_folder(context.job_folder, context.session)
    except OSError as error:
        raise ToolFailed(f"there is no place for a job's log: {error}", reason="launch", effect="none") from None
    try:
        env = environment_of_command(context.operation, env)
        async with BackgroundProcess(
            command, folder, cwd=cwd, env=env, deadline=deadline, takes_input=takes_input
        ) as process:
            text = command if isinstance(command, str) else shlex.join(command)
            new = NewJob(
                id=job,
                command=text,
                guard=process.guard,
                guard_started_at=process.guard_started_at,
                log=process.log,
                notify=notify,
            )
            await context.started(process.pid, process.started_at, new)
            has_begun = await process.begin()
    finally:
        # By the journal: a native cancellation, which ignores shields, may arrive with the commit.
        if job not in context.jobs:
            shutil.rmtree(folder, ignore_errors=True)
    if not has_begun:
        text = f"the guard of job {job} was killed or stopped while the job began; call `jobs` for its state"
        raise ToolFailed(text, reason="lost", effect="maybe", job=job, pid=process.pid, log=process.log)
    until = "" if deadline is None else f"; it is ended at its deadline of {deadline:g} s"
    if in_background(text) and "wait" not in text:
        until += "; what the command itself puts into the background ends with the command"
    if takes_input:
        until += "; job_send writes to its input"
    if notify:
        until += "; a message will say that it has ended"
    content = f"[job {job} has begun as process {process.pid}; its output goes to {process.log}{until}]"
    details = {
        "reason": None,
        "effect": "done",
        "background": True,
        "job": job,
        "pid": process.pid,
        "log": process.log,
    } | ({} if deadline is None else {"timeout": deadline})
    return ToolResult(kind="ok", content=content, value=content, details=details)


shell.added = frozenset({"stdin", "notify"})


async def _wait(process: Process, context: ProcessToolContext, timeout: float, kept: "Kept") -> Finished:
    try:
        return await process.wait(timeout)
    except anyio.get_cancelled_exc_class():
        if process.finished is not None:
            context.leave(_result(process.finished, process.pid, timeout, kept))
        raise


class Kept(NamedTuple):
    """The calls that would have kept the processes that a command left running."""

    command: str | list[str]
    cwd: str | None
    has_env: bool

    def calls(self, finished: Finished) -> list[dict[str, Any]]:
        """Return the arguments of these calls; none where no text is certain to do the same."""
        if not finished.left_behind_count or finished.was_ended:
            return []
        where, found = {} if self.cwd is None else {"cwd": self.cwd}, self._commands(finished.left_behind)
        if sum(map(len, found)) > LONGEST_KEPT_CHARACTERS:
            return []
        return [{"command": each, **where, "background": True} for each in found]

    def remark(self, calls: Sequence[Mapping[str, Any]]) -> str:
        """Return the calls as words for a model."""
        if not calls:
            return "use background=True for a command that is to go on"
        said = " and ".join(
            f"shell({', '.join(f'{name}={value!r}' for name, value in call.items())})" for call in calls
        )
        return f"to keep it, call {visible(said)}{' with the same env' if self.has_env else ''}"

    def _commands(self, left: Sequence[LeftBehind]) -> list[str]:
        text = self.command if isinstance(self.command, str) else None
        if text is not None and 0 < len(parts := in_background(text)) <= MOST_KEPT:
            return parts
        if text is not None and any(text[:SHOWN_CHARACTERS] in each.command for each in left):
            return [f"{text}\nwait"]  # a shell of its own, such as a loop, which only all of the text begins again
        if len(left) > MOST_KEPT or not all(_PLAIN.fullmatch(each.command) for each in left):
            return []
        return [each.command for each in left]


def _result(finished: Finished, pid: int, timeout: float, kept: Kept) -> ToolResult[str]:
    output, shown = finished.output, finished.output.show()
    calls = kept.calls(finished)
    details: dict[str, Any] = {
        "reason": _reason(finished),
        "effect": "done",
        "exit_code": finished.exit_code,
        "signal": finished.signal,
        "duration": round(finished.duration, 6),
        "timeout": timeout,
        "pid": pid,
        "output_bytes": output.total,
        "truncated": shown.is_cut,
        "left_behind": [
            {"pid": each.pid, "command": each.command, "escaped": each.has_escaped, "how": each.how}
            for each in finished.left_behind
        ],
        "left_behind_count": finished.left_behind_count,
        "refused_kills": list(finished.refused_kills),
    } | ({"keep": calls} if calls else {})
    if shown.is_drawn:
        details["rendered"] = True
    if not output.is_text:
        output = output.within(CAP_CHARACTERS)
        details["output_base64"] = base64.b64encode(output.head).decode()
        if output.is_truncated:
            details["output_tail_base64"] = base64.b64encode(output.tail).decode()
    ok = details["reason"] is None
    text = shown.text
    said = [text] if text.strip() else []
    content = "\n".join([*said, *_remarks(finished, timeout, kept.remark(calls))]) or NO_OUTPUT
    return ToolResult(kind="ok" if ok else "error", content=content, value=text if ok else None, details=details)


def _reason(finished: Finished) -> str | None:
    if finished.timed_out:
        return "deadline"
    if finished.signal is not None:
        return "signal"
    if finished.exit_code is None:
        return "lost"  # how it ended is unknown; `trouble` says why
    if finished.exit_code != 0:
        return "exit_code"
    return "left_running" if finished.left_behind_count else None


def _remarks(finished: Finished, timeout: float, keeping: str) -> list[str]:
    """Return lines that say how the command ended, unless it exited with 0, and what it left behind (T6)."""
    remarks = []
    if finished.timed_out:
        remarks.append(f"[ended at its deadline of {timeout:g} s]")
    elif finished.signal is not None:
        remarks.append(f"[ended by signal {finished.signal}]")
    elif finished.exit_code not in (0, None):
        remarks.append(f"[exit code {finished.exit_code}]")
    if finished.left_behind_count:
        named = finished.left_behind[:NAMED]
        names = ", ".join(f"{each.pid} ({visible(each.command[:SHOWN_CHARACTERS])}, {each.how})" for each in named)
        more = finished.left_behind_count - len(named)
        rest = f", and {more} more" if more else ""
        remarks.append(f"[left behind and ended: {names}{rest}; {keeping}]")
    if finished.trouble:
        remarks.append(f"[{finished.trouble}]")
    return remarks
