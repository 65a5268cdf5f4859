"""Which tool calls of a transcript are dangling, and where their synthesised results belong.

Theory: a transcript is a sequence of *frames*. A frame is one message of the assistant with its calls; it ends where
the next message of the assistant begins, because models accept the results of a call only between the two. A call
without a result in its own frame is dangling; a result without a call in its own frame is orphaned.

Rules:
- Calls and results are matched within one frame and by occurrence, so that a reused id, or a result that came too
  early, never hides a dangling call, and no call gets two results.
- A *skipped* message (it ended in an error, or was aborted) is not sent to a model. Its calls need no result, and
  results for them are orphaned. It neither ends a frame nor begins one.
- A call is *unanswerable* if its request is not known: it was cut off while it was written.
- A *held* call will be answered: its approval is pending or a living run executes it. It is open, not dangling.
- Where a key is unique, its result may be anywhere: a quick tool's result may be written before the line of its call.
- A real result that comes after a synthesised one for the same call replaces it; the synthesised one is then
  orphaned. It is never a second answer.
- If a file's maker sends a transcript whole and matches by id only (`framed=False`), there is one frame.

Positions (`at`, `after`) and keys are the caller's own: this module only compares keys, and returns positions.
It reads no file, knows no time and keeps nothing of a frame that is closed and answered.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable
from typing import Final, NamedTuple

_NO_CALL: Final = "there is no such call before it"

LOST: Final = "[tool execution lost — session was interrupted]"
"""The text of a synthesised result, in words that OpenClaw's users already know."""

MAY_HAVE_RUN: Final = "The command may have run: check its effects before running it again."

TEXT: Final = f"{LOST}\n{MAY_HAVE_RUN}"
"""The content of a synthesised result, unless a person gives another text."""

SYNTHESISED_TEXTS: Final = (
    "[tool execution lost",
    "[openclaw] missing tool result",
    "[clawdbot] missing tool result",
    "[Tool result missing due to internal error]",
    "No result provided",
    "aborted",
)
"""The beginnings of results that repairers wrote: ours, OpenClaw's, Claude Code's, pi's, Codex's."""


def is_synthesised_text(text: str) -> bool:
    """Return whether a repairer, ours or another, wrote a result with this text."""
    return any(text == known or (len(known) > 10 and text.startswith(known)) for known in SYNTHESISED_TEXTS)


class Dangling(NamedTuple):
    """A call without a result, and the place for its synthesised result."""

    key: Hashable
    at: int
    """The position of the message with the call."""
    nth: int
    """The index of the call at that position, counted from 0."""
    after: int
    """The position after which its result belongs: the last message of its frame."""
    is_tail: bool
    """No content for a model follows its frame, so the result may be appended at the end."""


class Orphaned(NamedTuple):
    """A result without a call."""

    key: Hashable
    at: int
    why: str
    is_needed: bool = False
    """A call with its key exists that has no other real result, so it is never dropped."""


class Findings(NamedTuple):
    calls: int
    dangling: list[Dangling]
    orphaned: list[Orphaned]
    unanswerable: int
    """Calls without a result that may not be answered: cut off, or in a message that ended in an error."""
    held: int
    """Calls without a result that will be answered."""


class _Frame:
    __slots__ = ("answers", "is_listed", "is_tail", "key", "last", "partial", "waiting")

    def __init__(self, key: Hashable, at: int) -> None:
        self.key = key
        self.last = at
        self.is_tail = True
        self.is_listed = False
        self.waiting: dict[Hashable, list[tuple[int, int]]] = {}
        self.partial: list[Hashable] = []
        self.answers: dict[Hashable, int] = {}


class Pairing:
    """Pairs the calls and results of one conversation, which it is given message by message, in order.

    `held` are the keys of calls that will be answered. `is_synthesised` is called only if there are two results for one
    call: it returns whether a repairer wrote the one at that position.
    """

    def __init__(
        self,
        *,
        framed: bool = True,
        held: Collection[Hashable] = (),
        is_synthesised: Callable[[int], bool] = lambda _: False,
    ) -> None:
        self._framed = framed
        self._held = held
        self._is_synthesised = is_synthesised
        self._frame: _Frame | None = None if framed else _Frame(None, -1)
        self._left: list[_Frame] = []  # closed and not fully answered
        self._named: dict[Hashable, _Frame] = {}  # those of them that may be continued
        self._skipped: list[Hashable] | None = None  # the calls of a skipped message, while it is the latest one
        self._at = -1
        self._nth = 0
        self._calls = self._unanswerable = 0
        self._orphaned: list[Orphaned] = []

    def frame(self, at: int, key: Hashable = None, *, skipped: bool = False) -> None:
        """Begin a message of the assistant; a message with the key of an earlier one continues that one."""
        if skipped:
            self._skipped = []
            return
        self._skipped = None
        if not self._framed:
            return
        current = self._frame
        if current is not None:
            if key is not None and current.key == key:
                current.last = at
                current.is_tail = True
                return
            self._leave(current)
        frame = self._named.pop(key, None) if key is not None else None
        if frame is None:
            frame = _Frame(key, at)
        frame.last = at
        frame.is_tail = True
        self._frame = frame

    def call(self, at: int, key: Hashable, *, answerable: bool = True) -> None:
        """Add a call to the message that `frame` began."""
        self._calls += 1
        self._nth = self._nth + 1 if at == self._at else 0
        self._at = at
        if self._skipped is not None:
            self._skipped.append(key)
            self._unanswerable += 1
            return
        if self._frame is None:
            self._frame = _Frame(None, at)
        if answerable:
            self._frame.waiting.setdefault(key, []).append((at, self._nth))
        else:
            self._frame.partial.append(key)
            self._unanswerable += 1

    def result(self, at: int, key: Hashable) -> None:
        """Match a result with the first call of its frame that has this key and no result."""
        frame = self._frame
        if frame is not None and key in frame.waiting:
            places = frame.waiting[key]
            places.pop(0)
            if not places:
                del frame.waiting[key]
            if self._framed:
                frame.answers[key] = at
                frame.last = at
                frame.is_tail = True
        elif self._skipped is not None and key in self._skipped:
            self._orphaned.append(Orphaned(key, at, "its call is in a message that ended in an error"))
        elif frame is not None and key in frame.partial:
            frame.partial.remove(key)
            self._unanswerable -= 1
        elif frame is not None and key in frame.answers:
            earlier = frame.answers[key]
            if self._is_synthesised(earlier) and not self._is_synthesised(at):
                frame.answers[key] = frame.last = at
                frame.is_tail = True
                self._orphaned.append(Orphaned(key, earlier, "the real result came after it"))
            else:
                self._orphaned.append(Orphaned(key, at, "its call has a result already"))
        else:
            self._orphaned.append(Orphaned(key, at, _NO_CALL))

    def said(self, _at: int) -> None:
        """Note other content that is sent to a model: it is then between a call and an appended result."""
        if self._frame is not None:
            self._frame.is_tail = False

    def forget(self) -> None:
        """Start again: the maker compacted everything so far, and no model will see it again."""
        self._frame = None if self._framed else _Frame(None, -1)
        self._left.clear()
        self._named.clear()
        self._orphaned.clear()
        self._unanswerable = 0
        self._skipped = None

    def astray(self) -> set[Hashable]:
        """Return the keys of calls without a result for which there is a result without a call."""
        waiting = {key for frame in self._frames() for key in frame.waiting}
        return {orphaned.key for orphaned in self._orphaned if orphaned.why == _NO_CALL and orphaned.key in waiting}

    def findings(self, unique: Collection[Hashable] = ()) -> Findings:
        """Close the conversation and return the findings, in the order of the calls. `unique` are keys that one call
        has: a result with such a key is that call's, wherever it is."""
        frames = self._frames()
        found = [(*place, key, frame) for frame in frames for key, places in frame.waiting.items() for place in places]
        strays = {o.key: o for o in reversed(self._orphaned) if o.why == _NO_CALL and o.key in unique}
        dangling: list[Dangling] = []
        answered: set[Orphaned] = set()
        held = 0
        for at, nth, key, frame in sorted(found, key=lambda place: place[:2]):
            if key in strays:
                answered.add(strays.pop(key))
            elif key in self._held:
                held += 1
            elif self._framed:
                dangling.append(Dangling(key, at, nth, frame.last, frame.is_tail))
            else:
                dangling.append(Dangling(key, at, nth, at, False))
        orphaned = [found for found in self._orphaned if found not in answered]
        return Findings(self._calls, dangling, orphaned, self._unanswerable, held)

    def _frames(self) -> list[_Frame]:
        """Return the frames that may have a call without a result."""
        current = self._frame
        return self._left if current is None or current.is_listed else [*self._left, current]

    def _leave(self, frame: _Frame) -> None:
        frame.is_tail = False
        if frame.waiting and not frame.is_listed:
            frame.is_listed = True
            self._left.append(frame)
        if frame.waiting and frame.key is not None:
            self._named[frame.key] = frame
