"""The timeline of a tree: what each run did and when, as lanes of intervals. It is read from the journals.

A journal says when something began or ended, so between two entries a run does one thing or waits for several. Some
activities have an entry only at their end (a child's outcome, a message, a step). The interval before such an entry is
classified by it. Until then, a run with sub-agents counts as waiting for them.

    active    it worked: its watchdog counted
    tool      a call was running, under a deadline of its own
    person    an approval or a question was open
    child     it waited for a sub-agent
    message   it waited for a message
    timer     it slept
    away      no process ran it: its process ended at this entry or later
    rest      it was idle between two turns of a conversation

Rules
- Every kind except `active` pauses the watchdog. A call does so, too, since it has a deadline of its own.
- An interval has all kinds that hold at the same time. `active` is never combined with others.
- Pure: `now` is an argument, and counts as the end of an unfinished interval.
- Long quiet intervals are drawn shorter, with a mark. Every interval is wide enough to be seen.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final, Literal

import msgspec

from supervisor.core import events as e
from supervisor.core.approvals.state import ENDS_APPROVAL
from supervisor.core.events.kinds import OTHER, Wait, kind_of
from supervisor.core.rows import JournalEntry

Kind = Wait | Literal["away", "rest"]

WORDS: Final[dict[Kind, str]] = {
    "active": "active",
    "tool": "a tool is running",
    "person": "waiting for a person",
    "child": "waiting for a sub-agent",
    "message": "waiting for a message",
    "timer": "sleeping",
    "away": "no process ran it",
    "rest": "idle between turns",
}
WIDTH: Final = 100.0
"""Units from the first instant to the last: per cent."""
LARGEST_SHARE: Final = 0.15
"""The largest share of the width for one stretch, in which nothing changes in the whole tree. It is larger if there are
few stretches."""
LABEL: Final = 30.0
"""Width of the label of a shortened stretch, in units."""
SMALLEST: Final = 0.4
"""Width of the shortest stretch, in units."""
MOST_STRETCHES: Final = 150
"""More would be too narrow to see. Only the latest are drawn, and the page says how much is left out."""

_PROGRESS: Final = e.having("own")
"""Entries of what the run itself did. All other entries happen to it."""

_CLOSING: Final = ENDS_APPROVAL | {e.ToolCallFinished}
"""Entries that end a wait or a call."""


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """What a run did from one instant to another."""

    kinds: tuple[Kind, ...]
    start: datetime
    end: datetime
    is_asleep: bool = False
    """Whether the run was passivated."""

    @property
    def is_paused(self) -> bool:
        """Whether the watchdog stood still."""
        return "active" not in self.kinds

    @property
    def words(self) -> str:
        told = " and ".join(WORDS[kind] for kind in self.kinds)
        return f"{told}, out of memory" if self.is_asleep else told


class Lane(msgspec.Struct, frozen=True, kw_only=True):
    session: str
    path: tuple[str, ...]
    intervals: tuple[Interval, ...]

    @property
    def totals(self) -> list[tuple[Kind, timedelta]]:
        """How long it did what, in the order of WORDS."""
        spent: dict[Kind, timedelta] = {}
        for interval in self.intervals:
            for kind in interval.kinds:
                spent[kind] = spent.get(kind, timedelta()) + (interval.end - interval.start)
        return [(kind, spent[kind]) for kind in WORDS if kind in spent]


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """An interval in units of width; `x` counts from the left."""

    interval: Interval
    x: float
    width: float


class Tick(msgspec.Struct, frozen=True, kw_only=True):
    at: datetime
    x: float


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    lanes: tuple[tuple[Lane, tuple[Bar, ...]], ...]
    ticks: tuple[Tick, ...]
    cuts: tuple[tuple[float, timedelta], ...]
    """The shortened stretches: their places and lengths. Neighbours are joined."""
    labels: tuple[tuple[float, timedelta], ...]
    """The cuts that get a label, from the left: the longest ones, as far as there is room."""
    left_out: timedelta
    """The time before the first instant that is drawn."""


def lane(session: str, rows: Sequence[JournalEntry], now: datetime) -> Lane:
    """Return the lane of a session, from its journal in order."""
    reader = _Reader()
    for row in rows:
        reader.take(row.event)
    return Lane(session=session, path=reader.path, intervals=_joined(reader.finish(now)))


_BACK_OFF: Final = "back-off"
"""The key that a restarted run waits for. No operation and no session has this name, so it counts as a timer."""


class _Reader:
    """Reads a journal entry by entry. The operations that are open between two entries say what the run did."""

    def __init__(self) -> None:
        self.path: tuple[str, ...] = ()
        self.found: list[Interval] = []
        self._last: datetime | None = None
        self._open: dict[str, Kind] = {}
        self._children: set[str] = set()
        self._asleep: tuple[str, ...] | None = None
        self._is_called = False
        """Whether it was woken and no attempt has started yet."""
        self._unsure: list[int] = []
        """Indexes of intervals without an open operation. The run's next entry says what the run did in them."""
        self._attempts = 0
        self._is_over = False

    def take(self, event: e.AnyEvent) -> None:
        """Close the interval that ends with this entry, then apply the entry."""
        if self._last is not None and not isinstance(event, e.MessageImported):
            self._close(event.at, is_new_attempt=isinstance(event, e.AttemptStarted) and self._attempts > 0)
        self._last = max(event.at, self._last or event.at)
        if type(event) in _PROGRESS:
            done = kind_of(event.kind) if isinstance(event, e.OperationFinished) else OTHER
            self._settle("active" if done.is_begun else done.lane)
        elif isinstance(event, e.RunPassivated):
            for key in event.waiting_for:
                self._settle(self._awaited(key))
        elif isinstance(event, e.AttemptStarted):
            self._unsure.clear()
        if self._asleep is not None and e.answers(event) in self._asleep:
            self._asleep, self._is_called = None, True
        self._note(event)

    def finish(self, now: datetime) -> list[Interval]:
        if self._last is not None and not self._is_over:
            self._close(now)
        return self.found

    def _close(self, end: datetime, *, is_new_attempt: bool = False) -> None:
        assert self._last is not None
        if end <= self._last:
            return
        kinds: set[Kind] = set(self._open.values())
        if self._is_over:
            kinds = {"rest"}
        elif self._asleep is not None:
            kinds |= {self._awaited(key) for key in self._asleep}
        elif self._is_called and not kinds:
            kinds = {"away"}
        elif not kinds - {"tool"} and is_new_attempt:
            kinds = {"child" if self._children else "away"}
        elif not kinds:
            self._unsure.append(len(self.found))
            kinds = {"child" if self._children else "active"}
        told = tuple(kind for kind in WORDS if kind in kinds)
        self.found.append(Interval(kinds=told, start=self._last, end=end, is_asleep=self._asleep is not None))

    def _awaited(self, key: str) -> Kind:
        return "message" if key == e.MESSAGE else "child" if key in self._children else self._open.get(key, "timer")

    def _settle(self, kind: Kind) -> None:
        """Classify the intervals since the last progress by the entry that ends them."""
        for place in self._unsure:
            self.found[place] = msgspec.structs.replace(self.found[place], kinds=(kind,))
        self._unsure.clear()

    def _note(self, event: e.AnyEvent) -> None:  # noqa: C901 # one case per kind of fact
        match event:
            case e.SessionCreated():
                self.path = event.path
            case e.RunStarted():
                self._open.clear()
                self._children.clear()
                self._is_over, self._attempts = False, 0
            case e.AttemptStarted():
                self._attempts += 1
                self._asleep, self._is_called = None, False
            case e.RunPassivated():
                self._asleep = event.waiting_for
            case e.RunRestarted():
                self._asleep = (_BACK_OFF,)
            case e.ToolCallRequested(approval=str()) | e.QuestionAsked():
                self._open[event.operation] = "person"
            case e.OperationStarted() if (lane := kind_of(event.kind).lane) != "active":
                self._open[event.operation] = lane
            case e.ToolCallStarted():
                self._open[event.operation] = "tool" if event.child is None else "child"
            case _ if type(event) in _CLOSING:
                self._open.pop(getattr(event, "operation", ""), None)
            case e.OperationFinished():
                self._open.pop(event.operation, None)
                if (child := e.begins(event)) is not None:
                    self._children.add(child)
            case e.ChildEnded():
                self._children.discard(event.child)
            case e.RunFinished() | e.ImportStarted():
                self._is_over, self._asleep = True, None
            case _:
                pass


def _joined(found: Sequence[Interval]) -> tuple[Interval, ...]:
    """Join neighbours of the same kinds."""
    joined: list[Interval] = []
    for interval in found:
        before = joined[-1] if joined else None
        same = before is not None and (before.kinds, before.is_asleep) == (interval.kinds, interval.is_asleep)
        if before is not None and same and before.end == interval.start:
            joined[-1] = msgspec.structs.replace(before, end=interval.end)
        else:
            joined.append(interval)
    return tuple(joined)


def draw(lanes: Sequence[Lane]) -> Timeline:
    """Lay lanes out on one axis: the same instant has the same place in every lane."""
    instants = sorted({at for lane in lanes for each in lane.intervals for at in (each.start, each.end)})
    drawn = instants[-MOST_STRETCHES - 1 :]
    if len(drawn) < 2:
        return Timeline(lanes=tuple((lane, ()) for lane in lanes), ticks=(), cuts=(), labels=(), left_out=timedelta())
    lengths = [(end - start).total_seconds() for start, end in pairwise(drawn)]
    longest = _longest(lengths)
    weights = [min(length, longest) for length in lengths]
    rest = WIDTH - SMALLEST * len(weights)
    scale = rest / sum(weights)
    places = [0.0]
    for weight in weights:
        places.append(places[-1] + SMALLEST + weight * scale)
    place = dict(zip(drawn, places, strict=True))
    cuts = tuple(_cuts(lengths, places, longest))
    return Timeline(
        lanes=tuple((lane, tuple(_bars(lane, drawn[0], place))) for lane in lanes),
        ticks=tuple(_ticks(drawn, places)),
        cuts=cuts,
        labels=_labels(cuts),
        left_out=drawn[0] - instants[0],
    )


def _bars(lane: Lane, first: datetime, place: dict[datetime, float]) -> list[Bar]:
    bars = []
    for interval in lane.intervals:
        if interval.end > first:
            x = place[max(interval.start, first)]
            bars.append(Bar(interval=interval, x=round(x, 2), width=round(place[interval.end] - x, 2)))
    return bars


def _cuts(lengths: Sequence[float], places: Sequence[float], longest: float) -> Iterator[tuple[float, timedelta]]:
    """Yield the middle and the length of each row of shortened stretches."""
    left, length = 0.0, 0.0
    for place, each in enumerate(lengths):
        if each > longest:
            left, length = left if length else places[place], length + each
        if length and (each <= longest or place == len(lengths) - 1):
            right = places[place] if each <= longest else places[place + 1]
            yield round((left + right) / 2, 2), timedelta(seconds=length)
            length = 0.0


def _labels(cuts: Sequence[tuple[float, timedelta]]) -> tuple[tuple[float, timedelta], ...]:
    """Return the cuts that get a label, without overlaps; longer cuts are chosen first."""
    chosen: list[tuple[float, timedelta]] = []
    for x, length in sorted(cuts, key=lambda cut: cut[1], reverse=True):
        if all(abs(x - other) >= LABEL for other, _ in chosen):
            chosen.append((x, length))
    return tuple(sorted(chosen))


def _longest(lengths: Sequence[float]) -> float:
    """Return the length up to which stretches are drawn to scale, so that none gets more than the largest share."""
    ordered = sorted(lengths)
    share = max(LARGEST_SHARE, 2 / len(ordered))
    below = 0.0
    for place, length in enumerate(ordered):
        above = len(ordered) - place
        if length > share * (below + length * above):
            return share * below / (1 - share * above)
        below += length
    return ordered[-1]


def _ticks(instants: Sequence[datetime], places: Sequence[float], least: float = 22.0) -> list[Tick]:
    """Return the instants that get a label: their labels do not overlap, and no two are the same."""
    ticks: list[Tick] = []
    for at, x in zip(instants, places, strict=True):
        is_new = not ticks or at.replace(microsecond=0) != ticks[-1].at.replace(microsecond=0)
        if is_new and (not ticks or x - ticks[-1].x >= least) and x <= WIDTH - least / 2:
            ticks.append(Tick(at=at, x=round(x, 2)))
    return ticks
