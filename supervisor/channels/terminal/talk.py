"""A message to a session from the terminal: the line that a person types, and the reply to it.

Rules
- A message goes to the session that its line names, even if the person selects another card while they type.
- A chat word decides only approvals that were shown before its first key (A12): the person does not mean a card that
  came while they typed.
- Keys that arrive together are a paste or type-ahead: an Enter among them ends a line of the text, and not the text. If
  the Enter is the last of them, the person may have pressed it, so it counts.
- A text that could not be sent goes back to the line, so that the person can send it again.
"""

from collections.abc import Iterable
from datetime import datetime
from typing import Final, Literal

import msgspec

from supervisor.channels.chat.replies import send_text
from supervisor.channels.terminal.line import PASTED, Line
from supervisor.channels.wording.cards import GUTTER, headline, heard_lines, summary
from supervisor.core.approvals.chat_words import ChatResult
from supervisor.core.sessions.activity import Activity
from supervisor.core.text.visible import visible
from supervisor.seam.supervisor import Supervisor

NOTING_SECONDS: Final = 5.0
"""How long a chat word waits until the journal says that its card was shown (A12). After that it decides nothing, and
the reply says how to decide."""


class Say(msgspec.Struct, frozen=True):
    """The person sends a text to a session; `began`: when they typed its first key."""

    session: str
    text: str
    began: float
    shown: frozenset[str] = frozenset()
    """Ids of the approvals whose cards the person had seen whole by then."""


class Talk:
    """A text that a person is typing to one session."""

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
    """Return the session to write to if no card names one: the first tree that is shown, or else one that runs here.

    `here`: the beginning of the owner's name of this process.
    """
    shown = [each for each in seen if each.parent is None]
    if shown:
        return next((each for each in shown if each.outcome is None), shown[0]).session
    views = await supervisor.find_sessions(is_open=True, limit=None)
    return next((view.id for view in views if view.parent is None and (view.owner or "").startswith(here)), None)


def reply_lines(said: Say, heard: ChatResult, now: datetime) -> list[str]:
    """Return the text that a person sent, and its result, as lines."""
    first, *more = visible(said.text.strip(), kind="prose", lines=True).split("\n")
    lines = [f"> {first}", *(f"  {GUTTER}{line}" for line in more)]
    if heard.sent is None:
        return lines + [f"  {line}" for line in heard_lines(heard, now)]
    lines.append(f"  {visible(said.session)} {send_text(heard.sent)}")
    if heard.sent.waiting_for:
        lines.append("  First it waits for a person:")
        lines += [f"    {each.id}  {headline(each)}: {summary(each)}" for each in heard.sent.waiting_for]
    if not heard.sent.running:
        lines.append("  The message is kept until the session runs again. A daemon runs it by itself.")
    return lines
