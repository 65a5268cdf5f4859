"""Repairing sessions when their writers are gone.

Theory: no writer announces that it is gone. We look at a session when its file has been quiet for a while, and repair
it only if we find no process that may still be writing it (`liveness.py`); else we leave it for another quiet period.
A tool that runs for an hour keeps a file quiet while its writer is alive, so a quiet file is not enough. A writer on
another machine cannot be found, so finding none is not enough either.

Rules:
- A file that changed within the quiet period is never touched.
- A refusal is reported once for each reason, and we look at the file again after each quiet period.
- A repair is a change, too: its file is looked at once more, and found clean.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import watchfiles

from supervisor.transcripts.recognised import is_database_name
from supervisor.transcripts.repair import Options, Report, find_files, is_transcript_name, repair


class QuietFiles:
    """The files that have been quiet for long enough, on a clock that the caller reads."""

    def __init__(self, quiet: float) -> None:
        self._quiet = quiet
        self._changed_at: dict[Path, float] = {}

    def notice(self, path: Path, at: float) -> None:
        """Note that a file changed, or was found busy, at this time."""
        self._changed_at[path] = at

    def take_due(self, at: float) -> list[Path]:
        """Return the files that are due, and forget them until the next `notice`."""
        due = sorted(path for path, changed in self._changed_at.items() if at - changed >= self._quiet)
        for path in due:
            del self._changed_at[path]
        return due


def watch(
    folder: Path,
    options: Options,
    *,
    quiet: float,
    now: Callable[[], datetime],
    monotonic: Callable[[], float],
) -> Iterator[Report]:
    """Repair the sessions below a folder as they become quiet, until interrupted; yield what was done or refused."""
    files = QuietFiles(quiet)
    refused: dict[str, str | None] = {}
    for path, _ in find_files([folder]):
        files.notice(path, monotonic() - _age(path, now()))
    tick = max(50, int(min(quiet / 4, 1.0) * 1000))
    for changes in watchfiles.watch(folder, watch_filter=None, rust_timeout=tick, yield_on_timeout=True):
        for _, name in changes:
            for path in _sessions_at(Path(name)):
                files.notice(path, monotonic())
        for path in files.take_due(monotonic()):
            if not os.path.lexists(path):
                continue
            age = _age(path, now())
            if age < quiet:  # a change that was not announced yet
                files.notice(path, monotonic() - age)
                continue
            report = repair(path, now(), options._replace(write=True))
            if report.state == "refused":
                files.notice(path, monotonic())
            if _is_news(report, refused):
                yield report


def _sessions_at(changed: Path) -> Iterator[Path]:
    """Yield the sessions that a change may concern; files in a new folder are not announced one by one."""
    if is_transcript_name(changed.name) or is_database_name(changed.name):
        yield changed
    elif os.path.isdir(changed):  # noqa: PTH112 - returns False where it may not look, and does not raise
        yield from (path for path, _ in find_files([changed]))


def _is_news(report: Report, refused: dict[str, str | None]) -> bool:
    known = refused.pop(report.path, None)
    if report.state == "refused":
        refused[report.path] = report.reason
        return report.reason != known
    return report.state == "repaired"


def _age(path: Path, now: datetime) -> float:
    """Return the seconds since a file changed; a time in the future counts as now."""
    try:
        return max(0.0, now.timestamp() - path.stat().st_mtime)
    except OSError:
        return 0.0 if not os.path.lexists(path) else math.inf  # a repair will say why the file cannot be read
