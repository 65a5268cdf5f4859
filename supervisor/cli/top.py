"""`supervisor top`: show the tree of runs of a store, from any process.

It shows what the journal tells, and whether the process that runs a tree lives. What only that process knows (steps,
model calls, budgets) is shown as "?". On a terminal it goes on until q or Ctrl-C; elsewhere it prints one frame.

Rules
- It uses the alternate screen of the terminal, and leaves it after q, a signal or Ctrl-Z.
- A frame is painted only when it has changed.
- While the answer to a look is late, the last line says so. The client asks again until it gives up.
"""

import os
import signal
import sys
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import anyio
from cyclopts import Parameter

from supervisor.cli import answers
from supervisor.cli.answers import say_on_stderr
from supervisor.cli.exits import Exit
from supervisor.cli.options import ANYWHERE, AnyPlace, JsonOption
from supervisor.cli.reading import get_session
from supervisor.core.documents import activity_document
from supervisor.seam.supervisor import Supervisor
from supervisor.system.refusals import HELD, WHAT_HOLDS
from supervisor.wiring.stopping import bare

if TYPE_CHECKING:
    from rich.live import Live
    from rich.text import Text

    from supervisor.channels.terminal.keys import KeyMode
    from supervisor.core.sessions.activity import Activity
    from supervisor.seam.runs import ActivityWatch

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
_WIDTH: Final = 120
"""Cells of a line where stdout is no terminal."""
_PATIENCE_SECONDS: Final = 3.0
"""Seconds after which the screen says that a look has no answer."""


def top(
    session: str | None = None,
    /,
    *,
    once: Annotated[bool, Parameter(negative=(), help="Print one frame, as where there is no terminal.")] = False,
    place: AnyPlace = ANYWHERE,
    json: JsonOption = False,
) -> int:
    """Show what every run is doing, since when, and what it waits for. The key q ends it.

    Parameters
    ----------
    session
        The id of a session, whose whole tree is shown. Default: every tree that has not ended.
    """
    if json or once or not _is_interactive() or (session is None and not place.exists):
        return _print(place.read(partial(_look_once, place, session), wanted=_wanted(session)), place, as_json=json)
    return anyio.run(_Top(place, session).run)


def _wanted(session: str | None) -> tuple[str, str] | None:
    return None if session is None else ("session", session)


def _is_interactive() -> bool:
    from supervisor.channels.terminal.keys import is_in_foreground

    has_screen = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    return has_screen and os.environ.get("TERM", "") not in ("", "dumb") and is_in_foreground(sys.stdin.fileno())


async def _look_once(place: AnyPlace, session: str | None, supervisor: Supervisor) -> "list[Activity]":
    if session is not None:
        await get_session(supervisor, session, place)  # raises NotFound with the closest ids
    async with supervisor.watch_activity(session) as activities:
        return list(await activities.look(limit=None, wholly=True))


def _print(found: "list[Activity]", place: AnyPlace, *, as_json: bool) -> int:
    if as_json:
        sessions = [activity_document(each) for each in found]
        answers.print_json({"at": _now(), "store": place.where, "sessions": sessions})
    elif found:
        from supervisor.channels.terminal.tree import draw_tree

        console = answers.open_console()
        width, height = (console.width, console.height - 1) if sys.stdout.isatty() else (_WIDTH, len(found) + 1)
        for line in draw_tree(found, width, height, _now()):
            console.print(line)
    else:
        say_on_stderr(f"Nothing runs or waits in {place.where}.")
    return Exit.DONE


class _Top:
    """The screen, until a key or a signal ends it."""

    def __init__(self, place: AnyPlace, session: str | None) -> None:
        self._place = place
        self._session = session
        self._console = answers.open_console()
        self._live: Live | None = None
        self._found: list[Activity] = []
        self._painted: list[Text] = []
        self._is_silent = False
        self._code = int(Exit.DONE)

    async def run(self) -> int:
        await bare(self._run)()
        return self._code

    async def _run(self) -> None:
        from supervisor.channels.terminal.keys import KeyMode

        async with self._place.open(wanted=_wanted(self._session)) as supervisor:
            if self._session is not None:
                await get_session(supervisor, self._session, self._place)
            mode = KeyMode(sys.stdin.fileno())
            try:
                async with supervisor.watch_activity(self._session) as activities, anyio.create_task_group() as tasks:
                    await tasks.start(self._hear_signals, mode, tasks.cancel_scope)
                    mode.enter()
                    tasks.start_soon(self._hear_keys, tasks.cancel_scope)
                    tasks.start_soon(self._keep_fresh, activities)
            finally:
                self._leave_screen()
                mode.leave()

    async def _hear_keys(self, scope: anyio.CancelScope) -> None:
        from supervisor.channels.terminal.keys import KeyDecoder, read_keys

        decoder = KeyDecoder()
        try:
            while "q" not in await read_keys(sys.stdin.fileno(), decoder):
                pass
        except EOFError:  # the terminal is gone
            pass
        scope.cancel()

    async def _hear_signals(
        self, mode: "KeyMode", scope: anyio.CancelScope, *, task_status: anyio.abc.TaskStatus[None]
    ) -> None:
        with anyio.open_signal_receiver(*_ENDING, signal.SIGWINCH, signal.SIGTSTP) as signals:
            task_status.started()
            async for number in signals:
                if number == signal.SIGTSTP:
                    self._leave_screen()
                    mode.leave()
                    os.kill(os.getpid(), signal.SIGSTOP)
                    mode.enter()
                if number in _ENDING:
                    self._code = int(Exit.DONE) if number == signal.SIGINT else 128 + number
                    scope.cancel()
                else:
                    self._painted = []
                    self._paint()

    async def _keep_fresh(self, activities: "ActivityWatch") -> None:
        from supervisor.channels.terminal.channel import pause_after

        while True:
            began = anyio.current_time()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._show_silence)
                self._found = list(await activities.look(limit=None))
                tasks.cancel_scope.cancel()
            self._is_silent = False
            self._paint()
            await anyio.sleep(pause_after(anyio.current_time() - began))

    async def _show_silence(self) -> None:
        await anyio.sleep(_PATIENCE_SECONDS)
        self._is_silent = True
        if self._live is not None:  # a first look may take long
            self._paint()

    def _paint(self) -> None:
        from rich.console import Group
        from rich.live import Live
        from rich.text import Text

        from supervisor.channels.terminal.tree import draw_tree

        width, height = self._console.size
        lines = draw_tree(self._found, width, height - 1 - (not HELD), _now())
        if not lines:
            lines = [Text("Nothing runs or waits here.")]
        lines += [Text()] * (height - 1 - (not HELD) - len(lines))
        last = f"{self._place.where} does not answer" if self._is_silent else self._next_command()
        lines.append(Text(f"q quits    {last}", style="dim", no_wrap=True, overflow="ellipsis"))
        if not HELD:
            lines.insert(-1, Text(f"Note: {WHAT_HOLDS}", style="dim", no_wrap=True, overflow="ellipsis"))
        if lines == self._painted:
            return
        if self._live is None:
            self._live = Live(console=self._console, auto_refresh=False, screen=True, vertical_overflow="crop")
            self._live.start()
        self._live.update(Group(*lines), refresh=True)
        self._painted = lines

    def _next_command(self) -> str:
        """Return the command that people most likely need next."""
        unrun = [each.session for each in self._found if each.is_unrun and each.parent is None]
        if unrun:
            command = f"resume {unrun[0]}" if len(unrun) == 1 else "resume"
        else:
            command = "approvals" if any(each.asks for each in self._found) else "show SESSION"
        return f"supervisor {command}{self._place.option}"

    def _leave_screen(self) -> None:
        live, self._live, self._painted = self._live, None, []
        if live is not None:
            live.stop()


def _now() -> datetime:
    return datetime.now().astimezone()
