"""`supervisor check-replay`: whether today's code can go on with the open sessions of a store. It changes nothing."""

from pathlib import Path
from typing import Annotated

import anyio
from cyclopts import Parameter

from supervisor.cli import answers
from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import Exit
from supervisor.cli.options import HERE, JsonOption, Place
from supervisor.cli.reading import told_block
from supervisor.core.errors import NotFound
from supervisor.core.text.visible import visible


def check_replay(
    file: str,
    /,
    *,
    export: Annotated[Path | None, Parameter(help="Replay an export (supervisor export) instead of a store.")] = None,
    seconds: float = 10.0,
    place: Place = HERE,
    json: JsonOption = False,
) -> int:
    """Check whether today's code can go on with the open sessions, by a replay in memory.

    Each agent runs until it has asked for everything that its journal holds. Nothing is written, and no step, call or
    question begins; code between operations does run. Exit codes: 0 all sessions can go on, 7 one is blocked, 3 one
    was not done in time.

    Parameters
    ----------
    file
        FILE.py or MODULE with the agents. Sessions find theirs by name.
    seconds
        How many seconds to wait for agents whose own code takes long.
    """
    from supervisor.system.loading import load_agents
    from supervisor.wiring.app import make_store
    from supervisor.wiring.checking import check_replay, read_export, read_open_store, read_store

    agents = load_agents(file)
    if export is not None:
        rows = read_export(export.read_bytes().splitlines())
    else:
        if not place.exists:
            raise NotFound(f"there is no store at {place.where}")
        rows = read_store(place.path) if place.postgres is None else read_open_store(make_store(place.postgres))
    found = anyio.run(lambda: check_replay(rows, agents, seconds=seconds))
    if json:
        answers.print_json(found)
    else:
        for each in found:
            print(f"{each.kind:<9}  {visible(each.path[-1])} [{each.session}]")
            for line in told_block(each.block) if each.block is not None else ():
                print(line)
    kinds = {each.kind for each in found}
    say_on_stderr(f"{len(found)} open sessions" + (", all follow" if kinds <= {"follows"} else ""))
    if "blocked" in kinds:
        return Exit.BLOCKED
    return Exit.WAITING if "undecided" in kinds else Exit.DONE
