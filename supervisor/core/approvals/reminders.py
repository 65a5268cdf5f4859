"""When people are told of an approval again, who may decide it from then on, and where they are told: steps. Pure.

Rules
- Steps come one after another. `after` counts from the step before, or from when the approval was asked, by the wall
  clock: a restart neither repeats nor delays a step. If several are overdue by then, they are one.
- While a person is on it (`acknowledged`), no step comes. Those of that time are one, at its end.
- Who may decide from a step on may do so from then on. No step takes that away, and none gives it to a person whom the
  configuration does not name.
- `remind_after`, `escalate_after` and `escalate_to` are two steps in other words.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from supervisor.core.errors import InvalidInput
from supervisor.core.values import Approval

MOST_REPEATS: Final = 100


class EscalationStep(msgspec.Struct, frozen=True, kw_only=True):
    """People are told again `after` seconds, and `repeat` times more, as long after each other. `whom`: names of people
    who may decide from then on; `by`: targets where people are told, next to the conversations that have a card:
    "CHANNEL", "CHANNEL:PLACE" or "CHANNEL:@approvers". Raises InvalidInput."""

    after: float
    whom: tuple[str, ...] = ()
    by: tuple[str, ...] = ()
    repeat: int = 0

    def __post_init__(self) -> None:
        _check_seconds("after", self.after)
        if not 0 <= self.repeat <= MOST_REPEATS:
            raise InvalidInput(f"repeat is 0 to {MOST_REPEATS} times, not {self.repeat}")
        if not all(name.strip() for name in (*self.whom, *self.by)):
            raise InvalidInput("whom has the names of people, and by has targets: write none of them empty")


class Due(NamedTuple):
    """A step that comes `at` an instant. `number`: of the step, from 1, each repetition counted. `whom`: who may decide
    from then on, by all steps up to it; `by`: of the steps up to it that have not come yet."""

    at: datetime
    number: int
    whom: tuple[str, ...]
    by: tuple[str, ...]


class Reminders:
    """The steps of an approval that stays undecided. Raises InvalidInput."""

    def __init__(
        self,
        steps: Sequence[EscalationStep] = (),
        *,
        remind_after: float | None = None,
        escalate_after: float | None = None,
        escalate_to: Sequence[str] = (),
    ) -> None:
        former = _former(remind_after, escalate_after, tuple(escalate_to))
        if former and steps:
            raise InvalidInput(
                "remind_after, escalate_after and escalate_to are steps, too: write all of them as steps, these ones "
                f"as\n{''.join(map(_toml, former))}"
            )
        self.steps = tuple(steps) or former

    def __repr__(self) -> str:
        return f"Reminders({list(self.steps)})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reminders) and self.steps == other.steps

    def __hash__(self) -> int:
        return hash(self.steps)

    def next(self, approval: Approval, now: datetime) -> Due | None:
        """Return the next step; the last one of those that are overdue; None if no step is left."""
        reached, found, by = self._reached(approval), None, dict[str, None]()
        paused_until = approval.acknowledged.until if approval.acknowledged is not None else now
        whom = dict.fromkeys(approval.escalated_to)
        for number, (seconds, step) in enumerate(self._times(), 1):
            at = approval.created_at + timedelta(seconds=seconds)
            if number > reached:
                if found is not None and at > max(now, paused_until):
                    break
                whom |= dict.fromkeys(step.whom)
                by |= dict.fromkeys(step.by)
                found = Due(at, number, tuple(whom), tuple(by))
        if found is None or approval.acknowledged is None:
            return found
        return found._replace(at=max(found.at, paused_until))

    def _times(self) -> Iterator[tuple[float, EscalationStep]]:
        seconds = 0.0
        for step in self.steps:
            for _ in range(1 + step.repeat):
                seconds += step.after
                yield seconds, step

    def _reached(self, approval: Approval) -> int:
        """Return the number of the last step that came. A former version did not journal it: its last one is the last
        step that names the same people."""
        if approval.step or approval.reminded_at is None:
            return approval.step
        same = [number for number, (_, step) in enumerate(self._times(), 1) if step.whom == approval.escalated_to]
        return max(same, default=0)


def _former(
    remind_after: float | None, escalate_after: float | None, escalate_to: tuple[str, ...]
) -> tuple[EscalationStep, ...]:
    for name, seconds in (("remind_after", remind_after), ("escalate_after", escalate_after)):
        if seconds is not None:
            _check_seconds(name, seconds)
    if (escalate_after is None) is not (not escalate_to) or not all(name.strip() for name in escalate_to):
        raise InvalidInput("an escalation needs both: escalate_after, and the names of people in escalate_to")
    steps = [EscalationStep(after=remind_after)] if remind_after is not None else []
    return (*steps, *([EscalationStep(after=escalate_after, whom=escalate_to)] if escalate_after is not None else []))


def _toml(step: EscalationStep) -> str:
    whom = f"whom = {msgspec.json.encode(step.whom).decode()}\n" if step.whom else ""
    return f"[[escalation]]\nafter = {step.after}\n{whom}"


def _check_seconds(name: str, seconds: Any) -> None:
    if not 0 < seconds < 1e9:
        raise InvalidInput(f"{name} must be more than 0 seconds, and not more than a lifetime, not {seconds}")
