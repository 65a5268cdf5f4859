"""Shows on a chat platform what an agent is writing (`Context.stream`): in one message, which is edited while the text
grows, and removed when the agent has said the whole.

Theory: the message is a picture of a text in memory, and no text is lost without it: telling.py posts what the agent
says as a message of its own, and waits for nothing here. The message is removed after that, so that people can read the
text at any instant. It carries the mark WRITING on the platform, or a note in the journal says that it is there. So a
process that comes after SIGKILL finds and removes it.

Rules
- Nothing is shown for the first `Chat.shows_after` seconds, so a short answer is one message. Then the message is
  edited at most every `Chat.edits_every` seconds, and shows the end of a text that is too long for it.
- A platform that is too busy, or cannot be reached, is asked again after a pause that grows to LONGEST seconds. After a
  refusal it is not asked again before the session's next run.
- A message that was posted while the agent writes on stands below the text. So the text goes on in a new message.
- A request under way is not given up when the run ends, since its message could not be removed then. BOUND limits it.
- The text is made harmless in the same way as what the agent says.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

import anyio
from anyio.abc import TaskGroup

from supervisor.channels.chat.platform import WRITING, Chat, Piece
from supervisor.channels.chat.prose import harmless, message_ending
from supervisor.core.errors import NotFound, SupervisorError
from supervisor.core.sessions.activity import StreamedText
from supervisor.core.text.visible import visible
from supervisor.seam.supervisor import Supervisor
from supervisor.system.logs import FactLog

log = FactLog(__name__)

SOON_SECONDS: Final = 2.0  # seconds in which a text that was said is posted, unless the platform is slow
LONGEST_SECONDS: Final = 60.0
BOUND_SECONDS: Final = 10.0  # seconds of one request
_MARK: Final = f"{WRITING}:"
_NOTHING: Final = StreamedText()


class Writing:
    """The message in which people read what the agent of one session is writing. `by`: the name under which it is
    posted. `tasks` has the tasks that remove messages."""

    def __init__(self, chat: Chat, session: str, by: str, tasks: TaskGroup) -> None:
        self._chat = chat
        self._session = session
        self._by = f"{by} · writing…"
        self._message: str | None = None
        self._shown = _NOTHING
        """What stands in the message."""
        self._count = 0
        """The number of messages that the session has said."""
        self._has_said = anyio.Event()
        self._is_telling = False
        self._tasks = tasks

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Post what the session says. Then the text before it is no longer needed."""
        self._is_telling = True
        try:
            yield
        finally:
            self._is_telling = False
        self._count += 1
        self._has_said.set()
        self._has_said = anyio.Event()
        self._remove()

    async def run(self, supervisor: Supervisor) -> None:
        """Show what the agent writes until cancelled, and then remove it."""
        try:
            await self._show_all(supervisor)
        except NotFound:  # it was pruned
            pass
        except SupervisorError as error:  # what the agent says is posted all the same
            log.warning("text.not_shown", channel=self._chat.name, session=self._session, error=str(error))
        finally:
            self._remove()

    async def _show_all(self, supervisor: Supervisor) -> None:
        failed = 0
        while True:
            written = await self._look(supervisor, self._shown)
            if self._message is None:
                await anyio.sleep(self._chat.shows_after)
                written = await self._look(supervisor)
            try:
                await self._show(supervisor, written)
                failed = 0
            except OSError as error:
                log.warning(f"{self._chat.name}.text_not_shown", session=self._session, error=repr(error))
                failed += 1
                if not isinstance(error, ConnectionRefusedError):
                    await self._remove_lost()
            every = self._chat.edits_every(self._session)
            await anyio.sleep(min(LONGEST_SECONDS, every * 2**failed) if failed else every)

    async def _look(self, supervisor: Supervisor, unlike: StreamedText | None = None) -> StreamedText:
        """Return what the agent has written, once it differs from `unlike`."""
        async with supervisor.watch_text(self._session) as watch:
            async for written in watch:
                if written != unlike:
                    return written
        await anyio.sleep_forever()  # the supervisor is closing, which cancels this
        raise AssertionError

    async def _show(self, supervisor: Supervisor, written: StreamedText) -> None:
        if written.text:
            await self._write(written)
        elif self._message is not None:
            with anyio.move_on_after(SOON_SECONDS):  # what the agent has said is posted first
                await self._has_said.wait()
            if not self._is_telling and not (await self._look(supervisor)).text:
                self._remove()

    async def _write(self, written: StreamedText) -> None:
        text = text_of(written, self._chat.room)
        piece = Piece(session=self._session, text=text, mark=WRITING, by=self._by)
        count, before, found = self._count, self._message, None
        try:
            with anyio.move_on_after(BOUND_SECONDS, shield=True):
                found = await self._chat.show_writing(piece, before)
        except SupervisorError:
            if count == self._count:  # otherwise the message was removed meanwhile
                raise
            return
        if found is None:
            raise TimeoutError(f"no answer for {BOUND_SECONDS:g} s")
        if count != self._count:  # it stands below what has been said since then
            if found != before:
                self._remove(found)
            return
        self._message, self._shown = found, written

    async def _remove_lost(self) -> None:
        """Remove a message that the platform may have posted before its answer was lost."""
        try:
            self.remove_left(await self._chat.find_said(self._session))
        except (SupervisorError, OSError) as error:
            log.warning("text.not_looked_for", channel=self._chat.name, session=self._session, error=repr(error))

    # -- the end of a message ----------------------------------------------------------------------------------------

    def remove_left(self, marks: Collection[str]) -> None:
        """Remove the messages with these marks that are not the one that people read now."""
        for mark in marks:
            if mark.startswith(_MARK) and (message := mark.removeprefix(_MARK)) != self._message:
                self._remove(message)

    def _remove(self, message: str | None = None) -> None:
        """Remove a message in a task of its own; by default the one that people read now."""
        if message is None:
            message, self._message, self._shown = self._message, None, _NOTHING
        if message is not None:
            self._tasks.start_soon(remove, self._chat, self._session, message)


async def remove(chat: Chat, session: str, message: str) -> None:
    """Remove a message until the platform does it, or refuses. A try under way is not given up."""
    wait = 1.0
    while True:
        try:
            with anyio.fail_after(BOUND_SECONDS, shield=True):
                return await chat.remove_writing(session, message)
        except SupervisorError as error:
            return log.warning("text.not_removed", channel=chat.name, session=session, error=str(error))
        except OSError as error:
            log.warning("text.not_removed", channel=chat.name, session=session, error=repr(error), again_in=wait)
        await anyio.sleep(wait)
        wait = min(LONGEST_SECONDS, 2 * wait)


def text_of(written: StreamedText, room: int) -> str:
    """Return the text, or its end, as harmless Markdown in at most `room` UTF-16 units."""
    shown = visible(written.text[-2 * room :], kind="prose", lines=True)
    is_cut = len(written.text) > 2 * room or written.left_out > 0
    return harmless(message_ending(harmless(shown), room - 1, is_cut=is_cut))
