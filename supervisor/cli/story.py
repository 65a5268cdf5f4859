"""A journal in lines: how `show`, `audit` and the progress of a run draw what core/telling.py tells."""

from datetime import datetime
from typing import Final

from supervisor.core import events as e
from supervisor.core.approvals.facts import instant_text
from supervisor.core.approvals.state import ASKS, ENDS_APPROVAL
from supervisor.core.rows import JournalEntry
from supervisor.core.telling import Telling, drawn, ending

_PROGRESS: Final = e.having("told")
_TROUBLE: Final = e.having("trouble")
_UNATTENDED: Final = _PROGRESS | ASKS | ENDS_APPROVAL
_BRACKETS: Final = {"mark": "({})", "approval": "[{}]", "command": "({})", "argument": "({})"}


def is_progress(event: e.AnyEvent) -> bool:
    """Whether people who watch a run see an event of this type."""
    return type(event) in _PROGRESS


def is_progress_unattended(event: e.AnyEvent) -> bool:
    """The same, where no channel shows approvals."""
    return type(event) in _UNATTENDED


def is_trouble(event: e.AnyEvent) -> bool:
    """The same, next to a tree of runs, which shows all else: failures, which should stay on the screen."""
    ended = isinstance(event, e.RunFinished) and event.kind != "succeeded"
    return ended or type(event) in _TROUBLE


class Story:
    """Tells the events of any number of sessions, each in its order. `brief`: for people who watch a run."""

    def __init__(self, *, brief: bool = False) -> None:
        self._telling = Telling(is_brief=brief)
        self.knows = self._telling.knows

    def name(self, session: str) -> str:
        return drawn(self._telling.name(session))

    def tell(self, row: JournalEntry, now: datetime) -> str:
        """Return the sentence of one event in one line, without its time and its session."""
        parts = (part for part in self._telling.tell(row) if part.kind != "traceback")
        return "".join(
            _BRACKETS.get(part.kind, "{}").format(drawn(part)) if part.at is None else instant_text(part.at, now)
            for part in parts
        )


def ended(kind: str, cause: str | None, width: int) -> str:
    """Return how a run ended, and why, in one line."""
    return "".join(drawn(part, width) for part in ending(kind, cause))
