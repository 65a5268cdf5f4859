"""`supervisor jobs`: list background jobs, which calls have started and which outlive them."""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

from supervisor.cli import answers
from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import Exit
from supervisor.cli.options import ANYWHERE, AnyPlace, JsonOption
from supervisor.core.approvals.facts import ago
from supervisor.core.text.visible import visible
from supervisor.seam.supervisor import Supervisor


def jobs(
    *,
    all: Annotated[bool, Parameter(negative=(), help="Also list jobs that have ended.")] = False,  # noqa: A002 # --all
    place: AnyPlace = ANYWHERE,
    json: JsonOption = False,
) -> int:
    """List background jobs and their status."""
    found = place.read(_find)
    shown = [job for job in found if all or job["state"] == "running"]
    if json:
        answers.print_json(shown)
    elif shown:
        _print(shown)
    else:
        ended = f"; {len(found)} have ended: supervisor jobs --all{place.option}" if found else ""
        say_on_stderr(f"No background jobs run in {place.where}{ended}")
    return Exit.DONE


async def _find(supervisor: Supervisor) -> list[dict[str, Any]]:
    found = await supervisor.find_jobs(running=False)
    return [msgspec.to_builtins(job, builtin_types=(datetime,)) for job in found]


def _print(found: list[dict[str, Any]]) -> None:
    from rich.text import Text

    now, console = datetime.now().astimezone(), answers.open_console()
    for job in found:
        text = Text(job["job"], style="bold")
        text.append(f"  {job['state']}", style="green" if job["state"] == "running" else "")
        if job["signal"] is not None or job["exit_code"] is not None:
            text.append(f" (exit code {job['exit_code']})" if job["signal"] is None else f" (signal {job['signal']})")
        text.append(
            f"  process {job['process']}, began {ago(job['began_at'], now)}, session {job['session']}", style="dim"
        )
        text.append(f"\n  {visible(job['command'])}\n  {visible(job['log'])}")
        console.print(text)
