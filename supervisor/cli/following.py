"""How a run that another process runs is followed until it ends, or waits for a person.

The run is a server's, or that of a daemon of the same store: leaving the command, or losing the connection, ends
nothing. So the command does not wait for people. It says what waits and how to decide it, and ends with exit code 3. If
it loses the server first, it names the session.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, Protocol

import anyio

from supervisor.cli import answers
from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import Exit
from supervisor.cli.options import AnyPlace, Opened, Place
from supervisor.cli.progress import Following
from supervisor.cli.story import is_progress
from supervisor.core.errors import RunBlocked, StoreError, SupervisorError
from supervisor.core.values import SessionView
from supervisor.seam.runs import Run
from supervisor.seam.supervisor import Supervisor
from supervisor.wiring.offers import find_offer
from supervisor.wiring.stopping import bare, run_until_stopped

Begin = Callable[[Supervisor], Awaitable[Run[Any]]]
LOOK_SECONDS: Final = 1.0
"""Seconds between two looks at whether the daemon lives."""
NOT_GOING_ON: Final = "No process goes on with it now:"


def goes_on(place: Place) -> str | None:
    """Return which process goes on with the sessions of a place when a command leaves them, as the beginning of a line;
    None if a person has to resume them."""
    if place.is_server:
        return f"It goes on at {place.where}:"
    try:
        found = None if place.local is None else find_offer(place.local)
    except StoreError:  # the caller has told of it
        return None
    if found is None or found.process is None:
        return None
    return f"The daemon of this store (process {found.process[0]}) goes on with it:"


class Report(Protocol):
    def __call__(self, place: AnyPlace, view: SessionView, *, as_json: bool) -> int:
        """Print how a session is, and return the exit code."""


def follow_there(
    place: AnyPlace,
    begin: Begin,
    action: str,
    report: Report,
    *,
    since: datetime,
    detach: bool = False,
    as_json: bool = False,
    opened: Opened | None = None,
) -> int:
    """Begin a run on a server, tell what happens in it from an instant on, and return the exit code that `report` makes
    of what it comes to. `action`: what only a person may do. `opened`: opens the Supervisor instead of `place`."""
    views: list[SessionView] = []
    begun: list[str] = []

    async def body() -> None:
        async with opened() if opened is not None else place.open(action=action) as supervisor:
            run = await begin(supervisor)
            begun.append(run.session)
            if not detach:
                await _follow(place, supervisor, run, since)
            views.append(await supervisor.get_session(run.session))

    def say_where() -> None:
        for session in begun:
            say_on_stderr(f"{goes_on(place) or NOT_GOING_ON} supervisor show {session}{place.option}")

    try:
        stopped = run_until_stopped(bare(body), "asyncio")
    except SupervisorError:
        say_where()
        raise
    if stopped or not views:
        say_where()
        return stopped or Exit.REFUSED
    if detach:
        if as_json:
            answers.print_json(answers.run_document(views[0]))
        else:
            print(views[0].id)
            say_on_stderr(f"\nsupervisor show {views[0].id}{place.option}")
        return Exit.DONE
    if views[0].outcome is None and goes_on(place) is None:
        say_where()
    return report(place, views[0], as_json=as_json)


async def _follow(place: Place, supervisor: Supervisor, run: Run[Any], since: datetime) -> None:
    """Tell what happens, until the run has ended, is blocked, waits for a person, or loses its daemon."""
    async with anyio.create_task_group() as tasks:

        async def until_left() -> None:
            while goes_on(place) is not None:  # noqa: ASYNC110 # another process sends no event
                await anyio.sleep(LOOK_SECONDS)
            tasks.cancel_scope.cancel()

        async def until_asked() -> None:
            async with run.watch_approvals() as watch:
                async for _ in watch:
                    tasks.cancel_scope.cancel()

        def tell(text: str, *_: str) -> None:
            say_on_stderr(text)

        tasks.start_soon(Following(supervisor, run.session, since, tell, is_progress, prints_result=True).run)
        tasks.start_soon(until_asked)
        tasks.start_soon(until_left)
        with suppress(RunBlocked):
            await run.outcome()
        tasks.cancel_scope.cancel()
