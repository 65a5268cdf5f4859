"""The progress of a running tree on stderr: one line for each event that people want to see, and all messages that its
sessions send to people.

The text results of turns are shown for the root only: those of sub-agents are for their parents. A command that prints
a result prints the last one itself. Events from before this process opened the store are not shown; `supervisor show`
has them.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Final

import anyio
from anyio.abc import TaskGroup

from supervisor.channels.wording.cards import GUTTER
from supervisor.cli.story import Story
from supervisor.core.errors import StoreError
from supervisor.core.events import AnyEvent, MessageSent, OperationFinished, RunStarted
from supervisor.core.rows import JournalEntry
from supervisor.core.telling import SAID, drawn
from supervisor.seam.supervisor import Supervisor

LONGEST_CHARACTERS: Final = 4000
"""Characters of a message that are shown; `supervisor show --json` has all of them."""


async def follow(
    supervisor: Supervisor,
    root: str,
    since: datetime,
    say: Callable[..., None],
    wants: Callable[[AnyEvent], bool],
    *,
    prints_result: bool = False,
) -> None:
    """Tell the events of a tree for which `wants` is true, from `since` on, until the caller is cancelled.

    `prints_result`: the caller prints the result of the last turn.
    """
    async with anyio.create_task_group() as tasks:
        telling = _Telling(supervisor, root, since, say, wants, prints_result, tasks)
        tasks.start_soon(telling.watch, root)


class _Telling:
    def __init__(
        self,
        supervisor: Supervisor,
        root: str,
        since: datetime,
        say: Callable[..., None],
        wants: Callable[[AnyEvent], bool],
        prints_result: bool,  # as `follow` was given it
        tasks: TaskGroup,
    ) -> None:
        self._supervisor = supervisor
        self._root = root
        self._since = since
        self._say = say
        self._wants = wants
        self._prints_result = prints_result
        self._tasks = tasks
        self._story = Story(brief=True)
        self._result: str | None = None
        """The result of the root's last turn, until another turn begins."""

    async def watch(self, session: str) -> None:
        with suppress(StoreError):  # the store was closed or died; the command reports that
            async with self._supervisor.watch_session(session, stay=session == self._root) as watch:
                async for row in watch:
                    if isinstance(row.event, OperationFinished) and row.event.kind == "spawn" and row.event.child:
                        self._tasks.start_soon(self.watch, row.event.child)
                    self._tell(row)

    def _tell(self, row: JournalEntry) -> None:
        event, now = row.event, datetime.now().astimezone()
        sentence = self._story.tell(row, now)  # of every event, since the story learns names from it
        if event.at < self._since:
            return
        start = f"{event.at.astimezone(now.tzinfo):%H:%M:%S}  {self._story.name(row.session)}"
        if self._wants(event):
            self._say(f"{start} {sentence}", "dim")
        if isinstance(event, RunStarted) and self._result is not None:
            self._say(self._result)
            self._result = None
        if not isinstance(event, MessageSent):
            return
        said = f"{start} says: {_told(event.text)}"
        if event.operation is not None or (row.session == self._root and not self._prints_result):
            self._say(said)
        elif row.session == self._root:
            self._result = said


def _told(text: str) -> str:
    """Return a message; several lines each begin with a gutter."""
    shown = drawn(SAID(text.strip()), LONGEST_CHARACTERS, lines=True)
    more = f" ({len(text) - LONGEST_CHARACTERS} more characters)" if len(text) > LONGEST_CHARACTERS else ""
    return (shown if "\n" not in shown else "".join(f"\n  {GUTTER}{line}" for line in shown.split("\n"))) + more
