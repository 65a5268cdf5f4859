"""Saying something to a session at the terminal: the line that is typed, and what is answered.

Rules
- What is said goes to the session that its line names, from the first key on, whatever is selected meanwhile.
- A word decides what was shown before it was begun (A12): a card that came while somebody typed is not what they meant.
- Keys that arrive together are a paste or type-ahead: an Enter among them ends a line of the text, not the text. The
  last of them may be the person's.
- What could not be said is given back to be said again.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, Literal

import anyio
import msgspec

from supervisor.abc import Supervisor
from supervisor.channels.cards import GUTTER, headline, heard_lines, summary
from supervisor.channels.replies import send_text
from supervisor.channels.terminal.line import PASTED, Line
from supervisor.core.activity import Activity
from supervisor.core.events import CardPosted
from supervisor.core.values import Approval
from supervisor.core.visible import visible
from supervisor.core.words import ChatResult

NOTING: Final = 5.0


class Say(msgspec.Struct, frozen=True):
    """The person says something to a session; `began`: when they began to type it."""

    session: str
    text: str
    began: float
    shown: frozenset[str] = frozenset()
    """Ids of the approvals whose cards they had been shown whole by then."""


class Talk:
    """What a person is about to say to one session."""

    def __init__(self, session: str, text: str, now: float) -> None:
        self.session = session
        self.line = Line(text)
        self.began = now
        self.shown: frozenset[str] = frozenset()

    @property
    def text(self) -> str:
        return self.line.text

    def press(self, keys: list[str], now: float) -> Literal["accept", "back"] | None:
        for place, key in enumerate(keys, 1):
            if not self.text:
                self.began = now
            is_inside = key == "enter" and place < len(keys)
            if (done := self.line.press(f"{PASTED}\n" if is_inside else key)) is not None:
                return done
        return None


async def find_tree(supervisor: Supervisor, seen: Iterable[Activity], here: str) -> str | None:
    """Return the session to talk to where no card names one: the first tree that is shown, or else that runs here.

    `here`: how an owner's description begins that is this process.
    """
    shown = [each for each in seen if each.parent is None]
    if shown:
        return next((each for each in shown if each.outcome is None), shown[0]).session
    views = await supervisor.find_sessions(is_open=True, limit=None)
    return next((view.id for view in views if view.parent is None and (view.owner or "").startswith(here)), None)


async def wait_until_noted(supervisor: Supervisor, approval: Approval, channel: str) -> None:
    """Wait until it is on disk that a channel has shown an approval: a word may be faster than a busy disk (A12).

    Given up after NOTING seconds; then the word decides nothing, and the reply says how to.
    """
    if channel in (await supervisor.get_approval(approval.id)).shown:
        return
    with anyio.move_on_after(NOTING):
        async with supervisor.watch_session(approval.session) as watch:
            async for row in watch:
                match row.event:
                    case CardPosted(approval=approval.id, channel=where) if where == channel:
                        return
                    case _:
                        pass


def reply_lines(said: Say, heard: ChatResult, now: datetime) -> list[str]:
    """Return what was said, and what became of it."""
    first, *more = visible(said.text.strip(), lines=True).split("\n")
    lines = [f"> {first}", *(f"  {GUTTER}{line}" for line in more)]
    if heard.sent is None:
        return lines + [f"  {line}" for line in heard_lines(heard, now)]
    lines.append(f"  {visible(said.session)} {send_text(heard.sent)}")
    if heard.sent.waiting_for:
        lines.append("  It waits for a person first:")
        lines += [f"    {each.id}  {headline(each)}: {summary(each)}" for each in heard.sent.waiting_for]
    if not heard.sent.running:
        lines.append("  The message is kept until it is run again, which a daemon does by itself.")
    return lines
