"""The commands of a tree: signals, which wait here until the tree does them, one after the other.

They come before the tree runs, too, and those that are not done yet when it moves go along with it.
"""

from typing import Any, Final

from supervisor.temporal.wire import Carried, Command, DecisionRequest, Signal, from_wire, to_wire

KEPT: Final = 100
"""The number of commands whose answers are kept."""


class Commands:
    """The commands that wait, and the answers to the latest ones that were done."""

    def __init__(self) -> None:
        self.waiting: list[DecisionRequest | Command] = []
        self.answers: dict[str, Any] = {}
        """By the id of the command, as {"answer": ...}."""

    @property
    def kinds(self) -> set[str]:
        """The kinds of the commands that wait, without decisions."""
        return {each.kind for each in self.waiting if isinstance(each, Command)}

    def decisions_on(self, approval: str) -> list[DecisionRequest]:
        """Return the decisions on an approval that wait."""
        return [each for each in self.waiting if isinstance(each, DecisionRequest) and each.approval == approval]

    def go_on_with(self, carried: Carried) -> None:
        """Take over what the workflow before has left. It came before what waits here."""
        self.answers = carried.answers
        self.waiting = [_read(*each) for each in carried.commands] + self.waiting

    def documents(self) -> list[tuple[Signal, Any]]:
        """Return what waits, for the next workflow."""
        return [("decide" if isinstance(each, DecisionRequest) else "command", to_wire(each)) for each in self.waiting]

    def keep(self, command: str, answer: Any) -> None:
        """Keep the answer to a command, for its client, instead of the oldest one."""
        self.answers[command] = {"answer": answer}
        if len(self.answers) > KEPT:
            del self.answers[next(iter(self.answers))]


def _read(signal: Signal, document: Any) -> DecisionRequest | Command:
    return from_wire(document, DecisionRequest) if signal == "decide" else from_wire(document, Command)
