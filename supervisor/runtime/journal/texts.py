"""Texts that agents are writing (Context.stream): in memory only, one for each session with an attempt in this process.

Rules
- The last LONGEST characters are kept, and the number of those before them. Pieces are joined now and then, so a text
  costs the same for each piece, however many come.
- What the agent says whole, by a message or a report, leaves the text when that entry is published, and not before: a
  reader sees the text or the entry at any instant.
- Readers are woken, and read what is there then. So a slow reader delays no agent, and misses only what was there in
  between.
"""

from collections.abc import Callable
from typing import Final

from supervisor.core.rows import JournalEntry
from supervisor.core.sessions.activity import StreamedText

LONGEST_CHARACTERS: Final = 64 * 1024
"""Characters of one text."""
MOST: Final = 1000
"""Pieces that are kept apart."""
_BETWEEN: Final = "\n\n"
_NOTHING: Final = StreamedText()


class _Text:
    """`begin`, `end`: the numbers of the first kept character and of the next one, counted from the attempt's first.
    `since`: where the text begins that was not said. `said`: all before it is about to be said."""

    __slots__ = ("begin", "end", "pieces", "said", "since")

    def __init__(self) -> None:
        self.begin = self.end = self.since = self.said = 0
        self.pieces: list[str] = []

    def add(self, piece: str) -> None:
        self.pieces.append(piece[-LONGEST_CHARACTERS:])
        self.end += len(piece)
        if len(self.pieces) > MOST or self.end - self.begin > 2 * LONGEST_CHARACTERS:
            self.join()

    def join(self) -> str:
        """Return the kept text, as one piece."""
        kept = "".join(self.pieces)[-min(LONGEST_CHARACTERS, max(1, self.end - self.since)) :]
        self.pieces, self.begin = [kept], self.end - len(kept)
        return kept


class Texts:
    def __init__(self, publish: Callable[[str], None]) -> None:
        """`publish` wakes the readers of a session's text."""
        self._texts: dict[str, _Text] = {}
        self._publish = publish

    def get(self, session: str) -> StreamedText:
        if (text := self._texts.get(session)) is None:
            return _NOTHING
        kept = text.join()
        return StreamedText(text=kept, left_out=text.begin - text.since)

    def get_end(self, session: str, length: int) -> str:
        """Return at most so many characters, the last ones."""
        return self.get(session).text[-length:] if session in self._texts else ""

    def get_unsaid(self, session: str, length: int) -> str:
        """Return at most so many characters, the last ones, of what the agent has not said as a whole."""
        text = self._texts.get(session)
        if text is None or text.said == text.end:
            return ""
        return text.join()[-min(length, text.end - text.said) :]

    def add(self, session: str, piece: str) -> None:
        text = self._texts.setdefault(session, _Text())
        if text.said == text.end > text.since:
            text.add(_BETWEEN)
            text.said = text.end
        text.add(piece)
        self._publish(session)

    def note_said(self, session: str) -> None:
        """Note that the agent says as a whole what it has written: that leaves the text with the next entries."""
        if (text := self._texts.get(session)) is not None:
            text.said = text.end

    def published(self, row: JournalEntry) -> None:
        """Drop what the agent has said as a whole: an entry of that was published."""
        session = row.session
        text = self._texts.get(session)
        if text is None or text.said == text.since:
            return
        text.since = text.said
        if text.since == text.end:
            del self._texts[session]
        self._publish(session)

    def drop(self, session: str) -> None:
        """Drop the text: its attempt has ended."""
        if self._texts.pop(session, None) is not None:
            self._publish(session)
