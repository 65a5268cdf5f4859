"""Repairing sessions: which files, what each lacks, and the report on it.

Theory: examining and repairing are one procedure, which ends early if the person only looks. Each file gets a report,
also if our own code fails, and no file prevents the report on another.

Rules:
- A file that is to be written is judged under the lock, so that the report is about the file that was written.
- We look for a process that may be writing only if there is something to add: a clean file may be live. One look serves
  all files of a run, but before a file is written we look again.
- A Codex rollout gets a repaired copy, unless the person asks for the file itself. A copy that is newer than its
  rollout and lacks nothing is not written again.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Collection, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from supervisor.core.encoding import printable_text
from supervisor.core.sessions.transcript import TEXT
from supervisor.transcripts.formats import Plan, Wish
from supervisor.transcripts.liveness import Processes, find_holder
from supervisor.transcripts.recognised import is_database_name
from supervisor.transcripts.session import RefusedError, Session, UnknownFormatError, judging, read_session
from supervisor.transcripts.write import check_writable, copy_path, locked, write_plan


class Options(NamedTuple):
    """What a person asks for."""

    write: bool = False
    text: str = TEXT
    drop_orphaned: bool = False
    in_place: bool = False
    """Append to a Codex rollout itself instead of writing a repaired copy."""
    not_running: bool = False
    """The person says that no program that runs in a session's folder uses the session."""
    held: Collection[str] = ()
    """Ids of calls that will be answered."""


class Line(msgspec.Struct, frozen=True):
    """A line that is, or would be, added; `after` counts from 1, and is None at the end of the file."""

    after: int | None
    call_id: str
    tool: str
    line: str


class Change(msgspec.Struct, frozen=True):
    """An existing line that now names another line; `at` counts from 1."""

    at: int
    line: str


class Orphan(msgspec.Struct, frozen=True):
    at: int
    why: str


class Report(msgspec.Struct, kw_only=True):
    """What was found in one file, and what was done."""

    path: str
    state: Literal["clean", "found", "repaired", "refused", "unknown"]
    format: str | None = None
    calls: int = 0
    dangling: int = 0
    orphaned: int = 0
    unanswerable: int = 0
    held: int = 0
    torn: int = 0
    added: list[Line] = []
    changed: list[Change] = []
    dropped: list[int] = []
    moved: list[int] = []
    """The torn lines that stop the maker's reader."""
    orphans: list[Orphan] = []
    written: str | None = None
    backup: str | None = None
    torn_moved_to: str | None = None
    reason: str | None = None
    notes: list[str] = []


def find_files(paths: Iterable[Path]) -> Iterator[tuple[Path, bool]]:
    """Yield each file to look at once, and whether a person named it."""
    seen: set[Path] = set()
    for path in paths:
        is_folder = path.is_dir()
        for file in _in_folder(path) if is_folder else (path,):
            real = Path(os.path.realpath(file))
            if real not in seen:
                seen.add(real)
                yield file, not is_folder


def is_transcript_name(name: str) -> bool:
    return name.endswith((".jsonl", ".jsonl.zst"))


def _in_folder(folder: Path) -> Iterator[Path]:
    closed: list[OSError] = []
    for parent, folders, names in os.walk(folder, onerror=closed.append):
        folders.sort()
        yield from (Path(parent, name) for name in sorted(names) if is_transcript_name(name) or is_database_name(name))
    yield from (Path(error.filename) for error in closed)  # reported like a file that cannot be read


def repair(path: Path, now: datetime, options: Options, processes: Processes | None = None) -> Report:
    """Examine a file and, if the options say so, repair it; give all files of a run the same `processes`."""
    report = Report(path=printable_text(str(path)), state="refused")
    try:
        with judging(path):
            _repair(report, path, now, options, processes or Processes())
    except UnknownFormatError as error:
        report.state, report.reason, report.format = "unknown", printable_text(str(error)), error.format
    except RefusedError as error:
        report.state, report.reason = "refused", printable_text(str(error))
        report.format = report.format or error.format
    except OSError as error:
        report.state, report.reason = "refused", printable_text(f"{path}: {error.strerror or error}")
    return report


def _repair(report: Report, path: Path, now: datetime, options: Options, processes: Processes) -> None:
    if path.is_dir():
        raise RefusedError(f"{path} is a folder that cannot be listed; allow reading it (chmod u+rx)")
    session = read_session(path, options.held)
    _tell(report, session)
    plan = _plan(session, now, options)
    if plan.is_empty:
        report.state = "clean"
        report.notes += plan.notes
        return
    _refuse_live(session, options, processes)
    report.state = "found"
    if options.write:
        _write(report, session, now, options)
    else:
        _tell_plan(report, session, plan, options)


def _write(report: Report, session: Session, now: datetime, options: Options) -> None:
    as_copy = session.format.writes_copy and not options.in_place
    is_in_place = session.format.writes_copy and not as_copy
    if is_in_place and any(at + 1 < len(session.index) for at in session.not_utf8):
        raise RefusedError(
            f"{session.path} has a torn line in its middle that must be moved away; leave out --in-place, so that a "
            "repaired copy is written"
        )
    if session.is_compressed and not as_copy:
        raise RefusedError(f"{session.path} is compressed and cannot be appended to; leave out --in-place")
    if as_copy and _is_done(session, options):
        report.state, report.written = "repaired", printable_text(str(copy_path(session)))
        report.notes.append("the repaired copy already exists")
        return
    check_writable(session)
    with locked(session.real, now):
        session = read_session(session.path, options.held)
        _refuse_live(session, options, Processes(), is_locked=True)
        _tell(report, session)
        plan = _plan(session, now, options)
        _tell_plan(report, session, plan, options)
        if plan.is_empty:
            report.state = "clean"  # another process repaired it between our two looks
            return
        written = write_plan(session, plan, now, as_copy=as_copy)
    report.state = "repaired"
    report.written = printable_text(str(written.target))
    report.backup = printable_text(str(written.backup)) if written.backup else None
    report.torn_moved_to = printable_text(str(written.torn)) if written.torn else None


def _plan(session: Session, now: datetime, options: Options) -> Plan:
    moves = frozenset(session.not_utf8)
    if not (session.dangling or (options.drop_orphaned and session.orphaned)):
        return Plan([], {}, set(), [], moves)
    wish = Wish(
        now,
        lambda: str(uuid.uuid4()),
        options.text,
        drop_orphaned=options.drop_orphaned,
        append_only=session.format.writes_copy and options.in_place,
    )
    with session.open() as lines:
        return session.format.plan(session.index, session.found, lines, wish)._replace(moves=moves)


def _refuse_live(session: Session, options: Options, processes: Processes, *, is_locked: bool = False) -> None:
    with session.open() as lines:
        calls = [call for findings in session.found.values() for call in findings.dangling]
        entry = lines.entry(calls[-1].at) if calls else {}
    cwd = entry.get("cwd") or session.first.get("cwd")
    if cwd is not None and not isinstance(cwd, str) and not options.not_running:
        raise RefusedError(
            f"{session.path}: its working folder is not a text, so programs that use it cannot be found; "
            "pass --not-running if there are none"
        )
    holder = find_holder(
        session.path,
        session.real,
        session.format.name,
        cwd if isinstance(cwd, str) else None,
        vouched=options.not_running,
        own_lock=is_locked,
        processes=processes,
    )
    if holder is not None:
        raise RefusedError(f"{session.path}: {holder}")


def _is_done(session: Session, options: Options) -> bool:
    copy = copy_path(session)
    try:
        if copy.stat().st_mtime_ns < session.stamp.mtime_ns:
            return False
        done = read_session(copy, options.held)
    except (OSError, RefusedError):
        return False
    if options.drop_orphaned and any(not o.is_needed for findings in done.found.values() for o in findings.orphaned):
        return False
    return not (done.dangling or done.not_utf8)


def _tell(report: Report, session: Session) -> None:
    report.format = session.format.name
    for name in ("calls", "dangling", "orphaned", "unanswerable", "held"):
        setattr(report, name, getattr(session, name))
    report.torn = len(session.torn)
    report.orphans = [
        Orphan(orphaned.at + 1, orphaned.why) for findings in session.found.values() for orphaned in findings.orphaned
    ]


def _tell_plan(report: Report, session: Session, plan: Plan, options: Options) -> None:
    report.added = [
        Line(
            None if a.after is None else a.after + 1, printable_text(a.call_id), printable_text(a.tool), a.line.decode()
        )
        for a in plan.additions
    ]
    report.changed = [Change(at + 1, line.decode("utf-8", "replace")) for at, line in sorted(plan.changes.items())]
    report.dropped = [at + 1 for at in sorted(plan.drops)]
    report.moved = [at + 1 for at in sorted(plan.moves)]
    report.notes += plan.notes
    others = session.real.stat().st_nlink - 1
    if session.format.writes_copy and not options.in_place:
        report.notes.append("a repaired copy is written next to it; --in-place appends to the rollout itself")
    elif others:
        report.notes.append(
            f"the file has {others} more name{'s' * (others > 1)} (hard links); only {session.real} leads to the "
            "repaired session, and the others keep the old one"
        )
