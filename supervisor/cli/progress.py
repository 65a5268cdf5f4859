"""What goes on in a tree, told while it goes on: one line on stderr for each event that a person would want to know,
and what its sessions say to people, whole.

A turn's text result is said by the root alone: a sub-agent's is for its parent. The last one is the command's own to
print, where it prints one.
What happened before this process opened the store is not told again; `supervisor show` has it.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from typing import Final

import anyio
from anyio.abc import TaskGroup

from supervisor.abc import JournalEntry, Supervisor
from supervisor.channels.cards import GUTTER
from supervisor.cli.story import Story
from supervisor.core.errors import StoreError
from supervisor.core.events import AnyEvent, MessageSent, OperationFinished, RunStarted
from supervisor.core.visible import visible

LONGEST: Final = 4000
"""Characters of one message that are shown; `supervisor show --json` has the rest."""


async def follow(
    supervisor: Supervisor,
    root: str,
    since: datetime,
    say: Callable[..., None],
    wants: Callable[[AnyEvent], bool],
    *,
    prints_result: bool = False,
) -> None:
    """Tell the events of a tree that somebody wants, from `since` on, until the caller is cancelled.

    `prints_result`: the caller prints what the last turn comes to.
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
        """What the root's last turn came to, until it is known whether another one follows."""

    async def watch(self, session: str) -> None:
        with suppress(StoreError):  # the store was closed, or died: whoever runs the tree says so
            async with self._supervisor.watch_session(session, stay=session == self._root) as watch:
                async for row in watch:
                    if isinstance(row.event, OperationFinished) and row.event.kind == "spawn" and row.event.child:
                        self._tasks.start_soon(self.watch, row.event.child)
                    self._tell(row)

    def _tell(self, row: JournalEntry) -> None:
        event, now = row.event, datetime.now().astimezone()
        sentence = self._story.tell(row, now)  # also of what is not told: it knows names from there
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
    """Return what a session says; of several lines, each behind a gutter."""
    shown = visible(text[:LONGEST].strip(), lines=True)
    more = f" … ({len(text) - LONGEST} more characters)" if len(text) > LONGEST else ""
    return (shown if "\n" not in shown else "".join(f"\n  {GUTTER}{line}" for line in shown.split("\n"))) + more
