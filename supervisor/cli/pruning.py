"""`supervisor prune`: remove trees that ended long ago.

Rules
- It shows what it will remove, and how much that is, before it removes anything. On a terminal it asks; elsewhere it
  needs `--yes`.
- Only a person may prune: a process that a supervised call started is refused (A4).
"""

import sys
from collections import Counter
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import anyio
import msgspec
from cyclopts import Parameter

from supervisor.cli import answers
from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import Exit
from supervisor.cli.options import HERE, JsonOption, Place, parse_duration
from supervisor.core.approvals.facts import ago
from supervisor.core.errors import InvalidInput
from supervisor.core.sessions.trees import PruneResult
from supervisor.core.text.visible import visible

_LISTED: Final = 20
"""Trees that are listed by name; more of them are only counted."""


def prune(
    *,
    older_than: Annotated[str, Parameter(help="The age of a tree's last event: 30d, 12h, 2w, 90m, 0s.")],
    dry_run: Annotated[bool, Parameter(negative=(), help="Show what would be removed, and remove nothing.")] = False,
    yes: Annotated[bool, Parameter(negative=(), help="Remove without asking.")] = False,
    place: Place = HERE,
    json: JsonOption = False,
) -> int:
    """Remove session trees that ended long ago: their journals, approvals and job logs."""
    place, before = place, _before(older_than)
    if json and not (yes or dry_run):
        raise InvalidInput("--json cannot ask: give --yes, or --dry-run to only look")
    forecast = anyio.run(_look, place, before)
    if not json:
        _tell(forecast, place)
    removed: list[str] = []
    if not dry_run and (forecast.trees or forecast.logs):
        if not yes and not _agrees():
            say_on_stderr("Nothing was removed.")
            return Exit.DONE
        was = _size(place)
        removed = anyio.run(_remove, place, before, [tree.session for tree in forecast.trees])
        say_on_stderr(f"Removed {_many(len(removed), 'tree')}. {place.where} had {was}, and has {_size(place)}.")
    if json:
        document: dict[str, Any] = {"dry_run": dry_run, "removed": removed, **_document(forecast)}
        answers.print_json(document)
    return Exit.DONE


def _before(older_than: str) -> datetime:
    """Return the instant that all events of a tree must be older than. Raises InvalidInput."""
    try:
        return datetime.now(UTC) - parse_duration(older_than)
    except OverflowError:
        raise InvalidInput(f"{older_than} is too long: give a shorter duration") from None


def _agrees() -> bool:
    """Ask at the terminal. Raises InvalidInput if there is none."""
    if sys.stdin is None or not sys.stdin.isatty() or not sys.stderr.isatty():
        raise InvalidInput("nothing was removed: there is no terminal to ask at; give --yes, or --dry-run to only look")
    print("Remove them for good? [y/N] ", end="", file=sys.stderr, flush=True)
    try:
        return sys.stdin.readline().strip().lower() in ("y", "yes")
    except KeyboardInterrupt:
        say_on_stderr("\nNothing was removed.")
        raise


async def _look(place: Place, before: datetime) -> PruneResult:
    async with place.open_store() as supervisor:
        return await supervisor.prune(before, dry_run=True)


async def _remove(place: Place, before: datetime, roots: list[str]) -> list[str]:
    """Remove these trees; return the roots of those that were removed, and say why the others are kept."""
    async with place.open_store() as supervisor:
        result = await supervisor.prune(before, only=roots)
    for tree in result.kept:
        say_on_stderr(f"{tree.session} is kept: it {tree.reason}")
    if result.compact_error is not None:
        say_on_stderr(f"The free space stays in the store, which uses it again: {result.compact_error}")
    return [tree.session for tree in result.trees]


def _document(forecast: PruneResult) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.to_builtins(forecast)
    del found["compact_error"]  # known only after a removal
    return found


def _tell(forecast: PruneResult, place: Place) -> None:
    now = datetime.now().astimezone()
    for tree in forecast.trees[:_LISTED]:
        print(
            f"{visible(tree.agent)} [{tree.session}]  {ago(tree.last_at, now)}  "
            f"{_many(tree.sessions, 'session')}, {_many(tree.entries, 'entry')}, {_bytes(tree.bytes)}"
        )
    if len(forecast.trees) > _LISTED:
        print(f"and {_many(len(forecast.trees) - _LISTED, 'more tree')}")
    sys.stdout.flush()
    total = sum(tree.bytes for tree in forecast.trees)
    logs = f", and {_many(forecast.logs, 'job log')} of {_bytes(forecast.log_bytes)}" if forecast.logs else ""
    say_on_stderr(f"To be removed from {place.where}: {_many(len(forecast.trees), 'tree')} of {_bytes(total)}{logs}.")
    for reason, count in Counter(tree.reason for tree in forecast.kept).most_common():
        say_on_stderr(f"  kept: {_many(count, 'tree')}{' that' if count == 1 else ', each of which'} {reason}")


def _many(count: int, word: str) -> str:
    plural = f"{word[:-1]}ies" if word.endswith("y") else f"{word}s"
    return f"{count} {word if count == 1 else plural}"


def _bytes(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def _size(place: Place) -> str:
    """Return the size of the store on the disk, including its log."""
    if place.postgres is not None:
        return "a size that its server knows"
    files = [place.path, place.path.with_name(f"{place.path.name}-wal")]
    return _bytes(sum(file.stat().st_size for file in files if file.exists()))
