"""What lies before the person at the terminal: the pending approvals, the selected one, and what a key press means.

A key becomes an action, or changes what is shown; drawing and deciding are the channel's. Pure: `now` is an argument.

Rules
- A key decides the selected card and no other, and only one that the person could have read: it was selected for
  `settle` seconds, and it was shown whole. A key meant for a card that has just gone never hits the next one.
- Several keys in one read are a paste or type-ahead, never a decision.
- Edited arguments are shown on the card before they can be approved.
"""

from typing import Any, Final, Literal

import msgspec

from supervisor.channels.cards import json_text, visible
from supervisor.channels.terminal.line import Line
from supervisor.core.values import Approval, Approve, Decision, Deny

KEYS: Final = "a e d v r and 1-9"


class Decide(msgspec.Struct, frozen=True):
    approval: str
    decision: Decision


class OpenEditor(msgspec.Struct, frozen=True):
    """The person wants to edit this approval's arguments in a program of their own, starting from `text`."""

    approval: str
    text: str


class ShowWhole(msgspec.Struct, frozen=True):
    approval: str


Action = Decide | OpenEditor | ShowWhole


class Desk:
    """Several pending approvals, one of them selected."""

    def __init__(self, by: str, settle: float, *, has_editor: bool = False) -> None:
        self.by = by
        self.settle = settle
        self.has_editor = has_editor
        self.pending: dict[str, Approval] = {}
        self.selected: str | None = None
        self.edited: dict[str, Any] = {}
        self.drafts: dict[str, str] = {}
        self.whole: set[str] = set()
        """Approvals that were shown whole."""
        self.message = ""
        self.line: Line | None = None
        """What the person is typing for the selected card, if they are."""
        self.typing: Literal["arguments", "reason"] = "reason"
        self._selected_at = 0.0

    @property
    def approval(self) -> Approval | None:
        return None if self.selected is None else self.pending[self.selected]

    def add(self, approval: Approval, now: float) -> None:
        self.pending[approval.id] = approval
        if self.selected is None:
            self._select(approval.id, now)

    def remove(self, approval: str, now: float) -> None:
        """Take an approval away that is decided or withdrawn, and select the one in its place."""
        if approval not in self.pending:
            return
        place = list(self.pending).index(approval)
        del self.pending[approval]
        self.edited.pop(approval, None)
        self.drafts.pop(approval, None)
        self.whole.discard(approval)
        if self.selected == approval:
            rest = list(self.pending)
            self._select(rest[min(place, len(rest) - 1)] if rest else None, now)

    def press(self, keys: list[str], now: float) -> Action | None:
        """Take the keys of one read; returns what the channel is to do about them."""
        if self.selected is None:
            return None
        if self.line is not None:
            return self._type(self.selected, self.line, keys, now)
        if len(keys) != 1:
            self.message = "Several keys came at once, so none of them counts. Press one."
            return None
        self.message = ""
        return self._choose(self.selected, keys[0], now)

    def _choose(self, selected: str, key: str, now: float) -> Action | None:
        match key:
            case "a":
                return self._approve(selected, now)
            case "d":
                self.line, self.typing = Line(), "reason"
            case "e":
                arguments = self.edited.get(selected, self.pending[selected].arguments)
                if self.has_editor:
                    return OpenEditor(selected, self.drafts.get(selected) or json_text(arguments, indent=2) + "\n")
                self.line, self.typing = Line(self.drafts.get(selected) or json_text(arguments)), "arguments"
            case "v":
                return ShowWhole(selected)
            case "r" if self.edited.pop(selected, None) is not None:
                self._select(selected, now)
            case "tab" | "right" | "down" | "n":
                self._step(selected, 1, now)
            case "backtab" | "left" | "up" | "p":
                self._step(selected, -1, now)
            case digit if digit.isdecimal() and 0 < int(digit) <= len(self.pending):
                self._select(list(self.pending)[int(digit) - 1], now)
            case other:
                name = visible(other) if len(other) == 1 else "That key"
                self.message = f"{name} does nothing here; the keys are {KEYS}."
        return None

    def _type(self, selected: str, line: Line, keys: list[str], now: float) -> Action | None:
        for key in keys:
            match line.press(key):
                case "back":
                    self.line, self.message = None, ""
                    return None
                case "accept" if self.typing == "reason":
                    self.line = None
                    return Decide(selected, Deny(by=self.by, reason=line.text.strip() or None))
                case "accept":
                    self.edit(selected, line.text, now)
                    return None
                case None:
                    pass
        return None

    def edit(self, approval: str, text: str, now: float) -> None:
        """Take edited arguments; what cannot be arguments is said, and kept as a draft."""
        self.drafts[approval] = text
        try:
            arguments = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeEncodeError) as error:
            self.message = f"That is not JSON, so nothing changed: {error}."
            return
        original = self.pending[approval].arguments
        if isinstance(original, dict) and not isinstance(arguments, dict):
            self.message = "That is JSON, but no object of arguments, so nothing changed."
            return
        del self.drafts[approval]
        self.edited.pop(approval, None)
        if arguments != original:
            self.edited[approval] = arguments
        self.message = "" if arguments != original else "The arguments are as they were."
        self.whole.discard(approval)
        self._select(approval, now)

    def _approve(self, selected: str, now: float) -> Decide | None:
        if now - self._selected_at < self.settle:
            self.message = "This one was shown only just now, so that key did not count. Read it, then press again."
            return None
        if selected not in self.whole:
            self.message = "There is more of it than fits here: v shows it whole, then a approves."
            return None
        edited: dict[str, Any] | None = self.edited.get(selected)
        return Decide(selected, Approve(by=self.by, arguments=edited))

    def _step(self, selected: str, by: Literal[1, -1], now: float) -> None:
        ids = list(self.pending)
        self._select(ids[(ids.index(selected) + by) % len(ids)], now)

    def _select(self, approval: str | None, now: float) -> None:
        self.selected = approval
        self.line = None
        self._selected_at = now
