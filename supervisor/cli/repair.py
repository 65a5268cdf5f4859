"""`supervisor repair`: find tool calls without a result in sessions of other programs, and write the results.

Theory: people come with a session that is stuck, and have little trust in one more program that changes it. So the
command only reads the session without `--write`, shows the exact lines that it would add, and keeps the old file.

Exit codes: 0 nothing to add, or repaired; 1 results are missing and were not written; 2 usage; 5 no such path;
6 refused. For several sessions, 6 comes before 1, and 1 before 0. In folders, files of unknown formats are skipped and
counted.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import cyclopts
    from rich.console import Console

    from supervisor.transcripts.repair import Options, Report

_MANY = 20  # files from which on a progress bar is shown


def register(app: cyclopts.App) -> None:
    """Add the command to an app."""
    from cyclopts import Parameter

    app.command(repair, name="repair", default_parameter=Parameter(negative=()))


def repair(
    *paths: Path,
    write: bool = False,
    json: bool = False,
    message: str | None = None,
    drop_orphaned: bool = False,
    in_place: bool = False,
    not_running: bool = False,
    watch: Path | None = None,
    quiet: float = 60.0,
) -> int:
    """Repair sessions of other programs that are stuck: they end in a tool call without a result.

    They are sessions of pi, OpenClaw, Claude Code, Codex, Gemini CLI, Copilot CLI, and lines of chat messages (Mistral
    Vibe, Hermes). Without --write, nothing is changed; the lines that would be added are shown. OpenClaw is supported
    up to 2026.7.1: later versions keep sessions in a SQLite database, which is recognised and not changed.

    Parameters
    ----------
    paths
        Sessions, or folders of them.
    write
        Write the missing results. The old file is kept as NAME.TIME.bak.
    json
        Print one JSON document instead of a table.
    message
        The text of the results, instead of "[tool execution lost — session was interrupted]".
    drop_orphaned
        Also remove results that belong to no call.
    in_place
        Append to a Codex rollout itself instead of writing a repaired copy (NAME.repaired) next to it.
    not_running
        Confirm that no running program uses the sessions.
    watch
        Watch a folder, and repair each session in it when its writer has ended. Implies --write.
    quiet
        For --watch: seconds without a change after which a session is repaired.
    """
    from supervisor.core.sessions.transcript import TEXT
    from supervisor.transcripts.repair import Options

    if bool(paths) == (watch is not None):
        return _usage("name either sessions or folders to read, or a folder with --watch")
    if message is not None and not message.strip():
        return _usage("--message needs a text: an empty result tells the model nothing")
    if not 0 <= quiet < float("inf"):
        return _usage("--quiet needs a number of seconds that is not negative")
    for path in (watch,) if watch else paths:
        if not path.exists():
            return _say(f"supervisor repair: {path}: no such file or folder", 5)
    if watch and not watch.is_dir():
        return _usage(f"--watch needs a folder, and {watch} is a file")
    options = Options(
        write=write,
        text=TEXT if message is None else message,
        drop_orphaned=drop_orphaned,
        in_place=in_place,
        not_running=not_running,
    )
    if watch:
        return _watch(watch, options, quiet, as_json=json)
    return _repair(paths, options, as_json=json)


def _say(text: str, code: int) -> int:
    print(text, file=sys.stderr)
    return code


def _usage(text: str) -> int:
    return _say(f"supervisor repair: {text} (see supervisor repair --help)", 2)


def _repair(paths: tuple[Path, ...], options: Options, *, as_json: bool) -> int:
    from datetime import UTC, datetime

    from supervisor.transcripts.liveness import Processes
    from supervisor.transcripts.repair import find_files, repair

    processes = Processes()
    reports: list[Report] = []
    skipped: Counter[str | None] = Counter()
    for path, is_named in _with_progress(list(find_files(paths))):
        report = repair(path, datetime.now(UTC), options, processes)
        if report.state == "unknown" and not is_named:
            skipped[report.format] += 1
            continue
        reports.append(report)
    if as_json:
        import msgspec

        document: dict[str, Any] = {"files": reports, "skipped": skipped.total()}
        named = {name: count for name, count in skipped.items() if name is not None}
        if named:
            document["skipped_formats"] = named
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(document)).decode() + "\n")
    else:
        _show(reports, skipped, options)
    states = {report.state for report in reports}
    if states & {"refused", "unknown"}:
        return 6
    return 1 if "found" in states else 0


def _with_progress(files: list[Any]) -> Iterator[Any]:
    if len(files) < _MANY or not sys.stderr.isatty():
        yield from files
        return
    from rich.console import Console
    from rich.progress import track

    console = Console(stderr=True)
    yield from track(files, "Reading sessions", console=console, transient=True)


def _show(reports: list[Report], skipped: Counter[str | None], options: Options) -> None:
    from supervisor.cli.answers import open_console

    console = open_console(is_folded=True)
    if reports:
        console.print(_table(reports))
    for report in reports:
        _show_details(console, report, options)
    if skipped:
        names = ", ".join(f"{count} of {name}" for name, count in sorted(skipped.items(), key=str) if name)
        console.print(f"\n{_count(skipped.total(), 'file')} of other formats skipped{': ' * bool(names)}{names}.")
    if not reports and not skipped:
        console.print("No sessions found.")
    found = sum(report.state == "found" for report in reports)
    if found:
        console.print("\nNothing was changed. Add --write to repair them; the old files are kept.")


def _table(reports: list[Report]) -> Any:
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
    table.add_column("state", no_wrap=True)
    for title in ("calls", "dangling", "orphaned", "torn"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("format", no_wrap=True)
    table.add_column("session", overflow="fold")
    for report in reports:
        counts = (report.calls, report.dangling, report.orphaned, report.torn)
        known = report.format is not None and report.state != "unknown"
        cells = [str(n) if known else "-" for n in counts]
        state = "refused" if report.state == "unknown" else report.state
        table.add_row(state, *cells, report.format or "?", _short(report.path))
    return table


def _short(name: str) -> str:
    home = str(Path.home())
    return _printable("~" + name[len(home) :] if name.startswith(home + "/") else name)


def _printable(text: str) -> str:
    """Escape control characters: names and calls come from models and other people."""
    from json import dumps

    return "".join(char if char.isprintable() else dumps(char)[1:-1] for char in text)


def _show_details(console: Console, report: Report, options: Options) -> None:
    said = [*_findings(report, options), *_lines(report), *report.notes]
    if report.written:
        said.append(f"written: {report.written}")
    if report.backup:
        said.append(f"old file: {report.backup}")
    if report.torn_moved_to:
        said.append(f"torn lines, which stop {report.format}, were moved to {report.torn_moved_to}")
    if said:
        console.print()
        console.print(_printable(report.path), style="bold", soft_wrap=True)
    for text in said:
        # A line of JSON is printed unwrapped, so that it can be copied.
        console.print(_printable(text if text.startswith("{") else f"  {text}"), soft_wrap=True)


def _findings(report: Report, options: Options) -> Iterator[str]:
    if report.reason:
        yield report.reason.removeprefix(report.path).lstrip(": ")
    if report.unanswerable:
        yield f"{_count(report.unanswerable, 'call')} need no result: they were cut off, or their message failed."
    for orphan in report.orphans:
        yield f"line {orphan.at}: orphaned result, {orphan.why}."
    if report.orphans and not options.drop_orphaned:
        yield "Orphaned results are kept; --drop-orphaned removes them."


def _lines(report: Report) -> Iterator[str]:
    is_done = report.state == "repaired"
    for line in report.added:
        place = "at the end" if line.after is None else f"after line {line.after}"
        yield f"{'added' if is_done else 'would add'} {place}, for {line.tool or 'a tool'}:"
        yield line.line
    for change in report.changed:
        yield f"{'changed' if is_done else 'would change'} what line {change.at} points to:"
        yield change.line
    for at in report.moved:
        done = "moved" if is_done else "would move"
        yield f"{done} line {at} to another file: it is torn inside a character, which stops {report.format}"
    if report.dropped:
        yield f"{'dropped' if is_done else 'would drop'} line {', '.join(map(str, report.dropped))}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _watch(folder: Path, options: Options, quiet: float, *, as_json: bool) -> int:
    import time
    from datetime import UTC, datetime

    import msgspec

    from supervisor.cli.answers import open_console
    from supervisor.transcripts.watch import watch

    console = open_console(is_folded=True)
    if not as_json:
        console.print(
            f"Watching {folder}. A session is repaired {quiet:g} s after its last change, if its writer has ended."
        )
    reports = watch(folder, options, quiet=quiet, now=lambda: datetime.now(UTC), monotonic=time.monotonic)
    for report in reports:
        if as_json:
            sys.stdout.write(msgspec.json.encode(report).decode() + "\n")
            sys.stdout.flush()
        else:
            _show_details(console, report, options)
    return 0
