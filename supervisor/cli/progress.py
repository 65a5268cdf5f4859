"""The progress of a running tree on stderr: one line for each event that people want to see, and all messages that its
sessions send to people.

The text results of turns are shown for the root only: those of sub-agents are for their parents. A command that prints
a result prints the last one itself. Events from before this process opened the store are not shown; `supervisor show`
has them.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
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


@dataclass
class Following:
    """Tells the events of a tree for which `wants` is true, from `since` on, until cancelled. `prints_result`: the
    caller prints the result of the last turn."""

    supervisor: Supervisor
    root: str
    since: datetime
    say: Callable[..., None]
    wants: Callable[[AnyEvent], bool]
    prints_result: bool
    _story: Story = field(default_factory=lambda: Story(brief=True))
    _result: str | None = None
    """The result of the root's last turn, until another turn begins."""

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch, self.root, tasks)

    async def _watch(self, session: str, tasks: TaskGroup) -> None:
        with suppress(StoreError):  # the store was closed or died; the command reports that
            async with self.supervisor.watch_session(session, stay=session == self.root) as watch:
                async for row in watch:
                    if isinstance(row.event, OperationFinished) and row.event.kind == "spawn" and row.event.child:
                        tasks.start_soon(self._watch, row.event.child, tasks)
                    self._tell(row)

    def _tell(self, row: JournalEntry) -> None:
        event, now = row.event, datetime.now().astimezone()
        sentence = self._story.tell(row, now)  # of every event, since the story learns names from it
        if event.at < self.since:
            return
        start = f"{event.at.astimezone(now.tzinfo):%H:%M:%S}  {self._story.name(row.session)}"
        if self.wants(event):
            self.say(f"{start} {sentence}", "dim")
        if isinstance(event, RunStarted) and self._result is not None:
            self.say(self._result)
            self._result = None
        if not isinstance(event, MessageSent):
            return
        said = f"{start} says: {_told(event.text)}"
        if event.operation is not None or (row.session == self.root and not self.prints_result):
            self.say(said)
        elif row.session == self.root:
            self._result = said


def _told(text: str) -> str:
    """Return a message; several lines each begin with a gutter."""
    shown = drawn(SAID(text.strip()), LONGEST_CHARACTERS, lines=True)
    more = f" ({len(text) - LONGEST_CHARACTERS} more characters)" if len(text) > LONGEST_CHARACTERS else ""
    return (shown if "\n" not in shown else "".join(f"\n  {GUTTER}{line}" for line in shown.split("\n"))) + more
