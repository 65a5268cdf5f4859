"""What lies before the person at the terminal: the pending approvals, the selected one, and what a key press means.

A key becomes an action, or changes what is shown; drawing and deciding are the channel's. Pure: `now` is an argument.

Rules
- A key decides the selected card and no other, and only one that the person could have read: it was selected for
  `settle` seconds, and it was shown whole. A key meant for a card that has just gone never hits the next one.
- Several keys in one read are a paste or type-ahead, never a decision.
- A word that is said and would decide is held to the same: what the person could not have read by then is not decided.
- A key that selects a card on one answers nothing on another: no letter and no number walks over the cards.
- Edited arguments are shown on the card before they can be approved.
- What is granted for longer than once is shown on a card of its own first, and chosen there by its number; edited
  arguments are approved once.
"""

from typing import Any, Literal

import msgspec

from supervisor.channels.cards import NUMBERS
from supervisor.channels.granting import Grant, grants
from supervisor.channels.terminal.line import Line
from supervisor.channels.terminal.talk import Say, Talk
from supervisor.core.encoding import from_json
from supervisor.core.errors import InvalidInput
from supervisor.core.questions import check_answer, is_yes_or_no, read_answer
from supervisor.core.values import Answer, Approval, Approve, Decision, Deny
from supervisor.core.visible import json_text, visible
from supervisor.core.words import read_word

Wider = Literal["session", "always"]


class Decide(msgspec.Struct, frozen=True):
    approval: str
    decision: Decision


class OpenEditor(msgspec.Struct, frozen=True):
    """The person wants to edit this approval's arguments in a program of their own, starting from `text`."""

    approval: str
    text: str


class ShowWhole(msgspec.Struct, frozen=True):
    approval: str


class OpenTalk(msgspec.Struct, frozen=True):
    """The person wants to say something, to this session; None: to whatever runs here."""

    session: str | None


Action = Decide | OpenEditor | ShowWhole | OpenTalk | Say


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
        self.granting: Wider | None = None
        """How far the person wants to allow the selected one; then its card shows what can be granted."""
        self.whole: set[tuple[str, Wider | None]] = set()
        """Faces that were shown whole."""
        self.message = ""
        self.line: Line | None = None
        """What the person is typing for the selected card, if they are."""
        self.typing: Literal["arguments", "reason", "answer"] = "reason"
        self.talk: Talk | None = None
        """What the person is saying to a session, if they are; cards come and go meanwhile."""
        self._selected_at = 0.0

    @property
    def approval(self) -> Approval | None:
        return None if self.selected is None else self.pending[self.selected]

    @property
    def face(self) -> tuple[str, Wider | None]:
        """What is shown of the selected approval: its card, or what can be granted."""
        return self.selected or "", self.granting

    @property
    def wider(self) -> tuple[Grant, ...]:
        """What the person may choose from, by its number."""
        approval = self.approval
        return () if approval is None or self.granting is None else grants(approval, self.granting)

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
        self._forget_shown(approval)
        if self.selected == approval:
            rest = list(self.pending)
            self._select(rest[min(place, len(rest) - 1)] if rest else None, now)

    def press(self, keys: list[str], now: float) -> Action | None:
        """Take the keys of one read; returns what the channel is to do about them."""
        if self.talk is not None:
            return self._talk(self.talk, keys, now)
        if self.selected is None:
            self.message = ""
            return OpenTalk(None) if keys == ["t"] else None
        if self.line is not None:
            return self._type(self.selected, self.line, keys, now)
        if len(keys) != 1:
            self.message = "Several keys came at once, so none of them counts. Press one."
            return None
        self.message = ""
        if self.granting is not None:
            return self._grant(self.selected, self.granting, keys[0], now)
        asked = self.pending[self.selected]
        if asked.kind == "question" and (keys[0] in ("a", "e") or keys[0] in _answers(asked)):
            return self._answer(asked, keys[0], now)
        return self._choose(self.selected, keys[0], now)

    def _choose(self, selected: str, key: str, now: float) -> Action | None:
        match key:
            case "a":
                return self._approve(selected, now)
            case "s" | "w" if self.pending[selected].kind == "call":
                self._open_grants(selected, "session" if key == "s" else "always", now)
            case "d":
                self.line, self.typing = Line(), "reason"
            case "e":
                arguments = self.edited.get(selected, self.pending[selected].arguments)
                if self.has_editor:
                    return OpenEditor(selected, self.drafts.get(selected) or json_text(arguments, indent=2) + "\n")
                self.line, self.typing = Line(self.drafts.get(selected) or json_text(arguments)), "arguments"
            case "v":
                return ShowWhole(selected)
            case "t":
                return OpenTalk(self.pending[selected].root_session)
            case "r" if self.edited.pop(selected, None) is not None:
                self._select(selected, now)
            case other:
                self._move(selected, other, now)
        return None

    def _move(self, selected: str, key: str, now: float) -> None:
        """Select another card, or say which keys there are."""
        match key:
            case "tab" | "right" | "down":
                self._step(selected, 1, now)
            case "backtab" | "left" | "up":
                self._step(selected, -1, now)
            case other:
                name = visible(other) if len(other) == 1 else "That key"
                self.message = f"{name} does nothing here; what each key does stands below."

    def _type(self, selected: str, line: Line, keys: list[str], now: float) -> Action | None:
        for key in keys:
            match line.press(key):
                case "back":
                    self.line, self.message = None, ""
                    return None
                case "accept" if self.typing == "answer":
                    return self._answer_with(self.pending[selected], line.text)
                case "accept" if self.typing == "reason":
                    self.line = None
                    return Decide(selected, Deny(by=self.by, reason=line.text.strip() or None))
                case "accept":
                    self.edit(selected, line.text, now)
                    return None
                case None:
                    pass
        return None

    def _talk(self, talk: Talk, keys: list[str], now: float) -> Say | None:
        """Take keys of what is being said; a paste in it stays in it."""
        self.message = ""
        if not talk.text:
            talk.shown = self._read_by(now)
        done = talk.press(keys, now)
        if done is None or (done == "accept" and talk.text.strip() and not self._is_read(talk, now)):
            return None
        self.talk = None
        return Say(talk.session, talk.text, talk.began, talk.shown) if done == "accept" and talk.text.strip() else None

    def _is_read(self, talk: Talk, now: float) -> bool:
        """Whether what is said decides nothing that the person could not have read when they began to say it."""
        word, approval = read_word(talk.text), self.approval
        is_bare = word is not None and word.approval is None
        if not is_bare or approval is None or approval.root_session != talk.session or self._may_decide(talk.began):
            return True
        talk.began = now  # they have been told, so Enter says it once more
        talk.shown = self._read_by(now + self.settle)
        return False

    def edit(self, approval: str, text: str, now: float) -> None:
        """Take edited arguments; what cannot be arguments is said, and kept as a draft."""
        self.drafts[approval] = text
        try:
            arguments = from_json(text, Any, "it")
        except InvalidInput as error:
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
        self._forget_shown(approval)
        self._select(approval, now)

    def _approve(self, selected: str, now: float) -> Decide | None:
        if not self._may_decide(now):
            return None
        edited: dict[str, Any] | None = self.edited.get(selected)
        return Decide(selected, Approve(by=self.by, arguments=edited))

    def _answer(self, asked: Approval, key: str, now: float) -> Decide | None:
        """Take a key of a question's: one of its choices, yes or no, or the beginning of a typed answer."""
        keys = _answers(asked)
        if key in keys:
            return Decide(asked.id, Answer(value=keys[key], by=self.by)) if self._may_decide(now) else None
        if key == "a" and not keys:
            self.line, self.typing = Line(self.drafts.get(asked.id, "")), "answer"
        else:
            self.message = f"{key} is no answer to this one; the keys stand on its card."
        return None

    def _answer_with(self, asked: Approval, text: str) -> Decide | None:
        """Take a typed answer; what is none is said, and kept as a draft."""
        self.line, self.drafts[asked.id] = None, text
        try:
            value = read_answer(asked, text)
            check_answer(asked, value)
        except InvalidInput as error:
            self.message = f"{visible(str(error))}. a takes it up again."
            return None
        if isinstance(value, str) and not value.strip():
            self.message = "That is no answer yet. a takes one, d declines."
            return None
        return Decide(asked.id, Answer(value=value, by=self.by))

    def _open_grants(self, selected: str, scope: Wider, now: float) -> None:
        """Show what can be granted for longer than once; nothing is decided by it."""
        if selected in self.edited:
            self.message = "Edited arguments are approved once. r restores what was asked."
        elif not grants(self.pending[selected], scope):
            self.message = "This one can only be approved once: what it would cover cannot be told safely."
        elif self._may_decide(now):
            self.granting, self._selected_at = scope, now

    def _grant(self, selected: str, scope: Wider, key: str, now: float) -> Action | None:
        """A key pressed before what can be granted."""
        if key == "v":
            return ShowWhole(selected)
        if key in ("esc", "backspace", "left"):
            self._select(selected, now)
        elif key.isdecimal() and 0 < int(key) <= len(self.wider):
            if self._may_decide(now):
                option = self.wider[int(key) - 1].option
                return Decide(selected, Approve(by=self.by, scope=scope, pattern=option.pattern))
        else:
            self.message = "Press the number of what you allow, or Esc to go back; nothing is decided yet."
        return None

    def _may_decide(self, now: float) -> bool:
        """Whether the person could have read what is shown."""
        if now - self._selected_at < self.settle:
            self.message = "This was shown only just now, so that key did not count. Read it, then press again."
        elif self.face not in self.whole:
            self.message = "There is more of it than fits here: v shows it whole, then press again."
        else:
            return True
        return False

    def _read_by(self, now: float) -> frozenset[str]:
        """Return the ids of what the person could have read by then: shown whole, as it was asked, and not only just
        now."""
        left_out = {*self.edited, self.selected if now - self._selected_at < self.settle else None}
        return frozenset(each for each, granting in self.whole if granting is None) - left_out

    def _forget_shown(self, approval: str) -> None:
        self.whole = {face for face in self.whole if face[0] != approval}

    def _step(self, selected: str, by: Literal[1, -1], now: float) -> None:
        ids = list(self.pending)
        self._select(ids[(ids.index(selected) + by) % len(ids)], now)

    def _select(self, approval: str | None, now: float) -> None:
        self.selected = approval
        self.granting = None
        self.line = None
        self._selected_at = now


def _answers(asked: Approval) -> dict[str, Any]:
    """Return the answers that have a key of their own."""
    if asked.choices is not None and len(asked.choices) <= len(NUMBERS):
        return dict(zip(NUMBERS, asked.choices, strict=False))
    return {"y": True, "n": False} if is_yes_or_no(asked.schema) else {}
