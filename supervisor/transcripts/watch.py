"""Repairing sessions as their writers go.

Theory: nobody announces that a writer is gone. A session is looked at when its file has been quiet for a while, and
then repaired only if nobody can be found who may still be writing it (`liveness.py`); else it is left for another
quiet period. A tool that runs for an hour keeps a file quiet while its writer lives, which is why quiet is not enough;
a writer on another machine cannot be found, which is why finding nobody is not enough either.

Rules:
- A file whose modification is younger than the quiet period is never touched.
- A refusal is reported once for each reason, and the file is looked at again after each quiet period.
- A repair is a change too: its file is looked at once more, and found clean.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import watchfiles

from supervisor.transcripts.repair import Options, Report, find_files, is_transcript_name, repair
from supervisor.transcripts.session import is_database_name


class QuietFiles:
    """Which files have been quiet for long enough, on a clock that the caller reads."""

    def __init__(self, quiet: float) -> None:
        self._quiet = quiet
        self._changed_at: dict[Path, float] = {}

    def notice(self, path: Path, at: float) -> None:
        """Note that a file changed, or was found busy, at this time."""
        self._changed_at[path] = at

    def take_due(self, at: float) -> list[Path]:
        """Return the files that are due, which are then forgotten until they are noticed again."""
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
    """Repair the sessions below a folder as they come to rest, until interrupted; yield what was done or refused."""
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
            if age < quiet:  # a change that has not been heard of yet
                files.notice(path, monotonic() - age)
                continue
            report = repair(path, now(), options._replace(write=True))
            if report.state == "refused":
                files.notice(path, monotonic())
            if _is_news(report, refused):
                yield report


def _sessions_at(changed: Path) -> Iterator[Path]:
    """Yield the sessions that a change is about; what was in a folder before it was watched is not announced."""
    if is_transcript_name(changed.name) or is_database_name(changed.name):
        yield changed
    elif os.path.isdir(changed):  # noqa: PTH112 - which says no where it may not look, and does not raise
        yield from (path for path, _ in find_files([changed]))


def _is_news(report: Report, refused: dict[str, str | None]) -> bool:
    known = refused.pop(report.path, None)
    if report.state == "refused":
        refused[report.path] = report.reason
        return report.reason != known
    return report.state == "repaired"


def _age(path: Path, now: datetime) -> float:
    """Return for how long a file has been as it is; a time in the future counts as this moment."""
    try:
        return max(0.0, now.timestamp() - path.stat().st_mtime)
    except OSError:
        return 0.0 if not os.path.lexists(path) else math.inf  # a repair will say why it cannot be read
