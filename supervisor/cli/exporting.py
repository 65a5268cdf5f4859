"""`supervisor export`: write a tree for other programs or machines, or before it is pruned.

There is one line for each entry of every journal of the tree, in the order in which the entries were committed. A line
is a JSON object, as in the timeline of `show --json`: `entry` (its number in its session), `position` (a number that
only grows), `session`, `event` (its kind), `at`, and the fields of that kind. Fields may be added; none is removed.
"""

import os
import secrets
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from cyclopts import Parameter

from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import Exit
from supervisor.cli.options import ANYWHERE, AnyPlace
from supervisor.cli.reading import get_session
from supervisor.core.documents import event_document
from supervisor.core.errors import InvalidInput
from supervisor.core.rows import JournalEntry
from supervisor.core.text.visible import visible
from supervisor.seam.supervisor import Supervisor


def export(
    session: str,
    /,
    *,
    output: Annotated[
        Path | None, Parameter(help="A file, which is written whole or not at all, with mode 0600; or a pipe.")
    ] = None,
    place: AnyPlace = ANYWHERE,
) -> int:
    """Write the journals of a session's whole tree as JSON lines.

    Parameters
    ----------
    session
        The id of any session of the tree.
    """

    async def read(supervisor: Supervisor) -> tuple[JournalEntry, ...]:
        root = (await get_session(supervisor, session, place)).root
        return (await supervisor.get_tree(root, entries=None)).entries

    rows = place.read(read, wanted=("session", session))
    if output is None:
        for line in _lines(rows):
            sys.stdout.buffer.write(line)
        sys.stdout.flush()
    else:
        if not output.absolute().parent.is_dir():
            raise InvalidInput(f"there is no folder {output.parent} to write into: make it first")
        if output.is_dir():
            raise InvalidInput(f"{output} is a folder: name a file in it")
        if output.exists() and not output.is_file():  # a device or a pipe is never replaced
            with output.open("wb") as sink:
                sink.writelines(_lines(rows))
        else:
            file = os.path.realpath(output)
            taken = "" if place.is_server or place.postgres else os.path.realpath(place.path)
            if taken and file in (taken, f"{taken}-wal", f"{taken}-shm"):
                raise InvalidInput(f"{file} is the store itself: name another file")
            write_whole(Path(file), _lines(rows))
        say_on_stderr(f"{len(rows)} entries are in {visible(str(output))}")
    return Exit.DONE


def _lines(rows: tuple[JournalEntry, ...]) -> Iterator[bytes]:
    numbers = Counter[str]()
    for row in rows:
        numbers[row.session] += 1  # as `show` counts the entries of a session
        yield msgspec.json.encode({"entry": numbers[row.session], **event_document(row)}) + b"\n"


def write_whole(path: Path, lines: Iterator[bytes]) -> None:
    """Write a file with mode 0600, so that it appears complete or stays as it was."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}.new")
    try:
        with os.fdopen(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600), "wb") as file:
            file.writelines(lines)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
