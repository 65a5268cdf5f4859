"""The terminal channel: posts approvals as cards with keys, or as plain lines where a person cannot press a key.

Theory: `Desk` knows the pending approvals and the meaning of each key, `screen` draws them, and this module owns the
terminal. The cards have one region at the bottom of the screen, on stderr, below the tree of runs if one is shown. The
region exists only while it has something to show. A decided approval becomes one line above the region, which says who
decided what.

Rules
- The channel reads keys only if stdin and stderr are a terminal and this process is in its foreground.
- stdout belongs to the program; the channel never writes to it.
- The region is painted only when it has changed. Ages and budgets are updated about once a second.
- The terminal's mode is restored on every exit (see `keys`).
- A decision carries the id of the card that was shown and goes through the Supervisor that `serve` was given.
"""

import os
import shlex
import signal
import sys
import tempfile
import threading
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

import anyio

from supervisor.channels.terminal.commands import card_commands
from supervisor.channels.terminal.desk import Decide, Desk, OpenEditor, OpenTalk, ShowWhole
from supervisor.channels.terminal.keys import KeyDecoder, KeyMode, is_in_foreground, read_keys
from supervisor.channels.terminal.talk import NOTING_SECONDS, Say, Talk, find_tree, reply_lines
from supervisor.channels.wording.cards import all_facts, card_lines, decided, make_card, path_text, summary, told
from supervisor.core.approvals.facts import Fact
from supervisor.core.errors import InvalidInput, StoreError, SupervisorError
from supervisor.core.sessions.activity import Activity
from supervisor.core.text.visible import visible
from supervisor.core.values import Approval
from supervisor.seam.channel import Channel
from supervisor.seam.runs import ActivityWatch
from supervisor.seam.shown import until_shown
from supervisor.seam.supervisor import Supervisor
from supervisor.system.identity import current_user

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live
    from rich.segment import Segment

SETTLE_SECONDS: Final = 0.4
"""Seconds that a card must be selected before a key approves it, so that a key for the previous card does not count."""
LOOK_AGAIN_SECONDS: Final = 1.0
"""Seconds between two reads of the tree of runs; more if a read takes long."""
FRESH_CARDS_SECONDS: Final = 10.0
"""Seconds after which cards are drawn again, since they show their age."""


def pause_after(took: float) -> float:
    """Return how many seconds to wait after a read of the tree that `took` seconds: reads take at most a twentieth of
    the time."""
    return max(LOOK_AGAIN_SECONDS, 20 * took)


class Terminal(Channel):
    """Ask the person at this terminal.

    `by`: the name for the audit trail; default: the login name. `store`: the path in the commands of plain lines.
    `settle`: see SETTLE. `interactive=False`: plain lines even at a terminal.
    """

    name = "terminal"

    def __init__(
        self,
        *,
        by: str | None = None,
        store: str | os.PathLike[str] | None = None,
        settle: float = SETTLE_SECONDS,
        interactive: bool = True,
    ) -> None:
        self._editor = shlex.split(os.environ.get("VISUAL") or os.environ.get("EDITOR") or "")
        self._desk = Desk(by or current_user(), settle, has_editor=bool(self._editor))
        self._store = None if store is None else os.fspath(store)
        self._may_ask = interactive
        self._is_open = False
        self._aside = 0
        """How many more times to set the terminal's mode: another process has the terminal, or the shell may still
        change the mode."""
        self._mode: KeyMode | None = None
        self._live: Live | None = None
        self._screen: Console | None = None
        self._activities: ActivityWatch | None = None
        self._roots: Collection[str] = ()
        self._seen: list[Activity] = []
        self._painted: list[list[Segment]] | None = None

    @property
    def is_interactive(self) -> bool:
        """Whether a person can press keys here now."""
        return (
            self._may_ask
            and sys.stdin is not None
            and sys.stdin.isatty()
            and sys.stderr.isatty()
            and os.environ.get("TERM", "") not in ("", "dumb")
            and is_in_foreground(sys.stdin.fileno())
        )

    @property
    def asks(self) -> bool:
        """Whether a person can answer here. Plain lines only name the commands that answer elsewhere."""
        return self._mode is not None or self.is_interactive

    @property
    def can_show_tree(self) -> bool:
        """Whether the tree of runs can be shown: not where a program reads stdout."""
        return self.is_interactive and sys.stdout.isatty()

    def show_tree(self, activities: ActivityWatch, roots: Collection[str]) -> None:
        """Show the trees of these root sessions above the cards, from now on."""
        self._activities, self._roots = activities, roots

    def say(self, text: str, style: str = "") -> None:
        """Write a line of the program itself to stderr, above the cards."""
        if self._live is not None or sys.stderr.isatty():
            from rich.text import Text

            self._console.print(Text(text, style=style))
        else:
            print(text, file=sys.stderr, flush=True)

    def restore(self) -> None:
        """Restore the terminal at once, for a process that is about to end without unwinding."""
        if self._mode is not None:
            self._mode.leave()
            sys.stderr.write("\x1b[?25h")
            sys.stderr.flush()

    async def post(self, approval: Approval, card: str | None) -> str:
        is_new = approval.id not in self._desk.pending or approval.reminded_at is not None
        self._desk.add(approval, anyio.current_time())
        if self._is_open:
            self._draw()
        elif is_new and not self.is_interactive:
            self.say(card_lines(make_card(approval, _now()), card_commands(approval, self._store)))
        return self.name

    def shows(self, approval: Approval) -> Sequence[Fact]:
        return all_facts(approval, approval.created_at)  # what fits on the screen is counted by the desk

    async def retire(self, approval: Approval, card: str) -> None:
        was_here = approval.id in self._desk.pending
        self._desk.remove(approval.id, anyio.current_time())
        if was_here or approval.status != "pending":
            is_granted = approval.status in ("approved", "answered")
            mark = "+" if is_granted else "-"
            line = (
                f"{mark} {path_text(approval.path)}: {summary(approval)}\n  {decided(approval, _now())} [{approval.id}]"
            )
            self.say(line, "green" if is_granted else "dim")
        self._draw()

    async def serve(self, supervisor: Supervisor) -> None:
        if not self.is_interactive:
            await anyio.sleep_forever()
        fd = sys.stdin.fileno()
        self._mode = KeyMode(fd)
        try:
            with self._mode.entered():
                self._is_open = True
                self._draw()
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(self._keep_fresh)
                    tasks.start_soon(self._watch_screen)
                    await self._listen(fd, supervisor)
        finally:
            self._is_open = False
            self._erase()
            if (talk := self._desk.talk) is not None and talk.text.strip():
                self.say(f"! not sent: {visible(talk.text, kind='prose')}", "bold red")

    async def _listen(self, fd: int, supervisor: Supervisor) -> None:
        decoder = KeyDecoder()
        while True:
            try:
                keys = await read_keys(fd, decoder)
            except EOFError:  # the terminal is gone
                return
            match self._desk.press(keys, anyio.current_time()):
                case Decide() as action:
                    await self._decide(supervisor, action)
                case OpenEditor() as action:
                    await self._edit(action)
                case ShowWhole(approval=approval):
                    self._show_whole(approval)
                case OpenTalk(session=session):
                    await self._open_talk(supervisor, session)
                case Say() as action:
                    await self._say(supervisor, action)
                case None:
                    pass
            self._draw()

    async def _decide(self, supervisor: Supervisor, action: Decide) -> None:
        try:
            result = await supervisor.decide(action.approval, action.decision, channel=self.name)
        except InvalidInput as error:
            self._desk.message = visible(str(error), kind="words")
            return
        self._desk.seen[action.approval] = result.seen
        if not (waits := result.kind in ("counted", "unseen")):
            self._desk.remove(action.approval, anyio.current_time())
        if result.kind not in ("accepted", "recorded"):
            self.say(f"! {told(result, _now())} [{action.approval}]", "bold" if waits else "bold red")

    async def _open_talk(self, supervisor: Supervisor, session: str | None) -> None:
        """Begin a message to the tree of the selected card, or to the tree that runs here."""
        here = f"process {os.getpid()} on {os.uname().nodename} "
        if (found := session or await find_tree(supervisor, self._seen, here)) is None:
            self.say("No session runs here that could get a message.", "bold red")
        else:
            self._desk.talk = Talk(found, "", anyio.current_time())

    async def _say(self, supervisor: Supervisor, said: Say) -> None:
        """Send a message or run a chat word, and print the result. A refused text goes back to its line (A12)."""
        began_at = _now() - timedelta(seconds=anyio.current_time() - said.began)
        self._draw()
        try:
            if (approval := self._desk.approval) is not None and approval.root_session == said.session:
                await until_shown(supervisor, approval, self.name, NOTING_SECONDS)
            heard = await supervisor.chat(
                said.session, said.text, by=self._desk.by, shown_before=began_at, channel=self.name, shown=said.shown
            )
        except SupervisorError as error:
            self._desk.message = visible(str(error), kind="words")
            self._desk.talk = Talk(said.session, said.text, anyio.current_time())
            return
        self.say("\n".join(reply_lines(said, heard, _now())))

    async def _edit(self, action: OpenEditor) -> None:
        """Give the terminal to the person's editor, with the arguments in a file that only this user can read."""
        assert self._mode is not None
        self._is_open = False  # cards that come now are drawn when the editor has ended
        self._erase()
        self._mode.leave()
        try:
            with tempfile.TemporaryDirectory(prefix="supervisor-edit-") as folder:
                file = anyio.Path(folder, "arguments.json")
                await file.write_text(action.text)
                failure = await _run_editor(self._editor, file)
                text = await file.read_text(errors="replace") if await file.exists() else action.text
        finally:
            self._mode.enter()
            self._is_open = True
        if action.approval not in self._desk.pending:
            self.say(
                f"! it was decided elsewhere while you edited; your text is dropped [{action.approval}]", "bold red"
            )
        elif failure:
            self._desk.message = f"{visible(shlex.join(self._editor))} {failure}, so nothing changed."
        else:
            self._desk.edit(action.approval, text, anyio.current_time())

    def _show_whole(self, approval: str) -> None:
        from supervisor.channels.terminal.screen import draw_face

        self._console.print(draw_face(self._desk, self._desk.pending[approval], _now(), self._console.width))
        self._desk.whole.add(self._desk.face)

    async def _keep_fresh(self) -> None:
        """Redraw when the activity of the runs has changed, and from time to time, since cards and runs show ages."""
        due = 0.0
        while True:
            began = anyio.current_time()
            if self._aside:  # a shell sends no signal when it brings a running process to the foreground
                self._come_back()
            await self._look()
            if self._activities is not None or began >= due:
                self._draw()
                due = began + FRESH_CARDS_SECONDS
            await anyio.sleep(pause_after(anyio.current_time() - began))

    async def _look(self) -> None:
        if self._activities is not None and self._is_open:
            try:
                self._seen = [each for each in await self._activities.look(limit=None) if each.root in self._roots]
            except StoreError:  # the runner of the tree reports it
                self._activities, self._seen = None, []

    async def _watch_screen(self) -> None:
        """Redraw when the window changes its size. Restore the terminal while the process is stopped (Ctrl-Z) or runs
        in the background."""
        numbers = [signal.SIGWINCH, signal.SIGCONT, signal.SIGTSTP]
        is_free = all(signal.getsignal(number) is signal.SIG_DFL for number in numbers)
        if threading.current_thread() is not threading.main_thread() or not is_free:
            return
        with anyio.open_signal_receiver(*numbers) as received:
            async for number in received:
                if number == signal.SIGTSTP:
                    self._step_aside()
                    taken = signal.signal(signal.SIGTSTP, signal.SIG_DFL)
                    os.kill(os.getpid(), signal.SIGTSTP)  # stops here, unless no shell could continue the process
                    signal.signal(signal.SIGTSTP, taken)
                if number != signal.SIGWINCH:
                    self._come_back()
                self._erase_rewrapped()
                self._draw()

    def _step_aside(self) -> None:
        """Leave the terminal to another process."""
        if self._is_open and self._mode is not None:
            self._is_open, self._aside = False, 2
            self._erase()
            self._mode.leave()

    def _come_back(self) -> None:
        """Take the terminal again, unless the process runs in the background."""
        if not is_in_foreground(sys.stdin.fileno()):
            self._step_aside()
        elif (self._is_open or self._aside) and self._mode is not None:
            self._mode.enter()
            self._is_open, self._aside, self._painted = True, max(0, self._aside - 1), None

    @property
    def _console(self) -> "Console":
        if self._screen is None:
            from supervisor.channels.terminal.screen import open_console

            self._screen = open_console()
        return self._screen

    def _draw(self) -> None:
        if not self._is_open:
            return
        if not self._desk.pending and not self._seen and self._desk.talk is None:
            self._erase()
            return
        from supervisor.channels.terminal.screen import as_renderable, draw_region

        lines = draw_region(self._desk, self._seen, self._console, _now())
        if lines != self._painted:
            self._region().update(as_renderable(lines), refresh=True)
            self._painted = lines

    def _erase_rewrapped(self) -> None:
        """Erase the additional rows that the region's lines take since the window has become narrower."""
        if self._painted is None:
            return
        from rich.control import Control
        from rich.segment import ControlType, Segment

        widths = [Segment.get_line_length(line) for line in self._painted]
        more = sum(max(0, width - 1) // self._console.width for width in widths)
        self._console.control(*[Control((ControlType.ERASE_IN_LINE, 2), (ControlType.CURSOR_UP, 1))] * more)
        self._painted = None

    def _region(self) -> "Live":
        if self._live is None:
            from rich.live import Live
            from rich.text import Text

            first: RenderableType = Text()
            self._live = Live(
                first,
                console=self._console,
                auto_refresh=False,
                transient=True,
                redirect_stdout=sys.stdout.isatty(),  # on a screen, the program's output appears above the cards
                redirect_stderr=True,
                vertical_overflow="crop",
            )
            self._live.start()
        return self._live

    def _erase(self) -> None:
        live, self._live, self._painted = self._live, None, None
        if live is not None:
            live.stop()


def _now() -> datetime:
    return datetime.now().astimezone()


async def _run_editor(editor: list[str], file: anyio.Path) -> str:
    """Run the editor in the terminal; return the failure as text, or "" on success."""
    try:
        process = await anyio.open_process([*editor, file], stdin=None, stdout=None, stderr=None)
    except OSError as error:
        return f"could not be started ({error.strerror})"
    async with process:
        code = await process.wait()
    return f"ended with code {code}" if code else ""
