"""`supervisor rescue`: let a session on Temporal go on with other code."""

from typing import Annotated

import anyio
from cyclopts import Parameter

from supervisor.cli import answers
from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import Exit
from supervisor.cli.options import HERE, JsonOption, Place
from supervisor.core.errors import InvalidInput
from supervisor.core.store_urls import TEMPORAL
from supervisor.core.text.visible import visible
from supervisor.system.identity import current_user

_NEXT = {
    "parked": "{session} is parked. Stop the workers with the old code, start those with the new one, then: "
    "supervisor rescue {session} --go-on{place}",
    "continued": "{session} goes on with the current version of the workers.",
    "going on": "{session} goes on.",
}


def rescue(
    session: str,
    /,
    *,
    go_on: Annotated[
        bool, Parameter(negative=(), help="Let a parked session go on: the workers have new code.")
    ] = False,
    place: Place = HERE,
    json: JsonOption = False,
) -> int:
    """Move a session to a new workflow, so that its agents go on with other code by their journals alone.

    A worker that has the session's code must live: it lets executing calls end. Nothing is withdrawn or repeated.

    Parameters
    ----------
    session
        The session's id; its whole tree goes on.
    """
    namespace = place.temporal
    if namespace is None:
        raise InvalidInput(
            f"a rescue is for a session on Temporal (--store {TEMPORAL}); next to a store of this machine a session "
            "goes on with the code that is there: supervisor resume"
        )

    async def do() -> str:
        from supervisor.temporal import open_temporal
        from supervisor.temporal.client.rescue import rescue as rescue_there

        async with open_temporal(str(namespace)) as supervisor:
            return await rescue_there(supervisor, session, goes_on=go_on, by=current_user())

    became = anyio.run(do)
    if json:
        answers.print_json({"session": session, "rescue": became})
    else:
        say_on_stderr(_NEXT[became].format(session=visible(session), place=place.option))
    return Exit.DONE
