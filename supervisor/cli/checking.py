"""`check-replay`: whether the code of today follows what the open sessions of a store have done. Changes nothing."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import anyio
from cyclopts import Parameter

from supervisor.cli import answers
from supervisor.cli.answers import say
from supervisor.cli.exits import Exit
from supervisor.cli.options import JsonOption, StoreOption, find_store
from supervisor.cli.reading import told_block
from supervisor.core.errors import NotFound
from supervisor.core.visible import visible

if TYPE_CHECKING:
    from supervisor.core.rows import JournalEntry


def check_replay(
    file: str,
    /,
    *,
    export: Annotated[Path | None, Parameter(help="An export to replay, instead of a store.")] = None,
    seconds: float = 10.0,
    store: StoreOption = None,
    json: JsonOption = False,
) -> int:
    """Replay the open sessions of a store with the agents of a file, in memory.

    Nothing is written, and no step, call or question begins; what plain code of the agents does between operations
    does happen. Exit codes: 0 all follow, 7 one is blocked, 3 one could not be decided in time.

    Parameters
    ----------
    file
        FILE.py or MODULE with the agents, which are found by their names.
    seconds
        How long to wait for agents whose own code takes long.
    """
    from supervisor.checking import check_replay, read_export
    from supervisor.loading import load_agents

    agents = load_agents(file)
    if export is not None:
        rows = read_export(export.read_bytes().splitlines())
    else:
        place = find_store(store)
        if not place.path.exists():
            raise NotFound(f"there is no store at {place.path}")
        rows = _read(place.path)
    found = anyio.run(lambda: check_replay(rows, agents, seconds=seconds))
    if json:
        answers.print_json(found)
    else:
        for each in found:
            print(f"{each.kind:<9}  {visible(each.path[-1])} [{each.session}]")
            for line in told_block(each.block) if each.block is not None else ():
                print(line)
    kinds = {each.kind for each in found}
    say(f"{len(found)} open sessions" + (", all follow" if kinds <= {"follows"} else ""))
    if "blocked" in kinds:
        return Exit.BLOCKED
    return Exit.WAITING if "undecided" in kinds else Exit.DONE


def _read(path: Path) -> "list[JournalEntry]":
    """Return the entries of all open trees, as they are now. They are read from a copy, which alone is brought up to
    date if its format is older."""
    from supervisor.store.sqlite.schema import check_header, copy_to
    from supervisor.store.sqlite.store import SqliteStore

    check_header(path)
    with TemporaryDirectory(prefix="supervisor-") as folder:
        snapshot = Path(folder) / "snapshot.db"
        copy_to(path, snapshot)
        store = SqliteStore(snapshot, create=False)
        store.open()
        try:
            roots = dict.fromkeys(row.root for row in store.find_sessions(is_open=True))
            sessions = [row.id for root in roots for row in store.find_sessions(root=root)]
            rows = [row for session in sessions for row in store.journal(session)]
            return sorted(rows, key=lambda row: row.position)
        finally:
            store.close()
