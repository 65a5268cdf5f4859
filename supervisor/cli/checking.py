"""`check-replay`: whether the code of today follows what the open sessions of a store have done. Changes nothing."""

from pathlib import Path
from typing import Annotated

import anyio
from cyclopts import Parameter

from supervisor.cli import answers
from supervisor.cli.answers import say
from supervisor.cli.exits import Exit
from supervisor.cli.options import HERE, JsonOption, Place
from supervisor.cli.reading import told_block
from supervisor.core.errors import NotFound
from supervisor.core.visible import visible


def check_replay(
    file: str,
    /,
    *,
    export: Annotated[Path | None, Parameter(help="An export to replay, instead of a store.")] = None,
    seconds: float = 10.0,
    place: Place = HERE,
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
    from supervisor.checking import check_replay, read_export, read_store
    from supervisor.loading import load_agents

    agents = load_agents(file)
    if export is not None:
        rows = read_export(export.read_bytes().splitlines())
    else:
        if not place.exists:
            raise NotFound(f"there is no store at {place.path}")
        rows = read_store(place.path)
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
