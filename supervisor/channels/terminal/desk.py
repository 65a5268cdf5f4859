"""The desk of the person at the terminal: the pending approvals, the selected one, and the meaning of each key.

A key becomes an action or changes what is shown. The channel draws the desk and carries out the actions. Pure: `now` is
an argument.

Rules
- A key decides only the selected card, and only if the person could read it: the card was selected for `settle` seconds
  and was shown whole. So a key for a card that has just gone never decides the next one.
- Several keys in one read are a paste or type-ahead, and never a decision.
- The same holds for chat words: they do not decide an approval that the person could not have read before.
- Letters and numbers never select another card, so that a key to move cannot answer a question.
- Edited arguments are shown on the card before the person can approve them. An answer that was filled in field by field
  is shown as a line, which Enter sends.
- A pattern for longer than once is shown on a card of its own, and chosen there by its number. Edited arguments are
  approved only once.
"""

from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from supervisor.channels.chat.interview import Interview, interview_of
from supervisor.channels.terminal.line import Line
from supervisor.channels.terminal.talk import Say, Talk
from supervisor.channels.wording.cards import NUMBERS
from supervisor.channels.wording.granting import Grant, grants
from supervisor.core.approvals.chat_words import read_word
from supervisor.core.approvals.questions import check_answer, is_yes_or_no, read_answer
from supervisor.core.encoding import read_exact
from supervisor.core.errors import InvalidInput
from supervisor.core.text.visible import json_text, visible
from supervisor.core.values import Answer, Approval, Approve, Decision, Deny

Wider = Literal["session", "always"]


class Decide(msgspec.Struct, frozen=True):
    approval: str
    decision: Decision


class OpenEditor(msgspec.Struct, frozen=True):
    """The person wants to edit this approval's arguments in their editor; `text` is its first content."""

    approval: str
    text: str


class ShowWhole(msgspec.Struct, frozen=True):
    approval: str


class OpenTalk(msgspec.Struct, frozen=True):
    """The person wants to write to this session; None: to the tree that runs here."""

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
        self.seen: dict[str, str] = {}
        """The codes of the evidence of edited arguments that the person was shown (A18)."""
        self.drafts: dict[str, str] = {}
        self.granting: Wider | None = None
        """The scope that the person wants to allow; while it is set, the card lists the patterns of that scope."""
        self.whole: set[tuple[str, Wider | None]] = set()
        """Faces that were shown whole. A face is an approval with its card, or with its list of patterns."""
        self.message = ""
        self.line: Line | None = None
        """The line that the person types for the selected card, if any."""
        self.typing: Literal["arguments", "reason", "answer", "field"] = "reason"
        self.forms: dict[str, Interview] = {}
        """Forms that were begun and are not complete."""
        self.talk: Talk | None = None
        """The message that the person types to a session, if any. Cards come and go in the meantime."""
        self._selected_at = 0.0

    @property
    def approval(self) -> Approval | None:
        return None if self.selected is None else self.pending[self.selected]

    @property
    def face(self) -> tuple[str, Wider | None]:
        """What is shown of the selected approval: its card, or the patterns of a scope."""
        return self.selected or "", self.granting

    @property
    def wider(self) -> tuple[Grant, ...]:
        """The patterns that the person may choose by number."""
        approval = self.approval
        return () if approval is None or self.granting is None else grants(approval, self.granting)

    def add(self, approval: Approval, now: float) -> None:
        self.pending[approval.id] = approval
        if self.selected is None:
            self._select(approval.id, now)

    def remove(self, approval: str, now: float) -> None:
        """Remove an approval that has ended, and select the next one."""
        if approval not in self.pending:
            return
        place = list(self.pending).index(approval)
        del self.pending[approval]
        self.edited.pop(approval, None)
        self.seen.pop(approval, None)
        self.drafts.pop(approval, None)
        self.forms.pop(approval, None)
        self._forget_shown(approval)
        if self.selected == approval:
            rest = list(self.pending)
            self._select(rest[min(place, len(rest) - 1)] if rest else None, now)

    def press(self, keys: list[str], now: float) -> Action | None:
        """Take the keys of one read; return the action that the channel is to carry out."""
        if self.talk is not None:
            return self._talk(self.talk, keys, now)
        if self.selected is None:
            self.message = ""
            return OpenTalk(None) if keys == ["t"] else None
        if self.line is not None:
            return self._type(self.selected, self.line, keys, now)
        if len(keys) != 1:
            self.message = "Several keys came at once, so none of them counts. Press one key."
            return None
        self.message = ""
        if self.granting is not None:
            return self._grant(self.selected, keys[0], now)
        asked = self.pending[self.selected]
        if asked.kind == "question" and (keys[0] in ("a", "e", "j") or keys[0] in _answers(asked)):
            return self._answer(asked, keys[0], now)
        return self._choose(self.selected, keys[0], now)

    def _choose(self, selected: str, key: str, now: float) -> Action | None:
        asked = self.pending[selected]
        match key:
            case "a":
                return self._approve(selected, now)
            case "s" | "w" if asked.kind == "call":
                self._open_grants(selected, "session" if key == "s" else "always", now)
            case "d":
                self.line, self.typing = Line(), "reason"
            case "e" if self._open_form(asked):
                pass
            case "e" | "j" if asked.editable:
                arguments = self.edited.get(selected, asked.arguments)
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
        """Select another card, or say that the key does nothing."""
        match key:
            case "tab" | "right" | "down":
                self._step(selected, 1, now)
            case "backtab" | "left" | "up":
                self._step(selected, -1, now)
            case other:
                name = visible(other) if len(other) == 1 else "That key"
                self.message = f"{name} does nothing here. The keys are listed below."

    def _type(self, selected: str, line: Line, keys: list[str], now: float) -> Action | None:
        for key in keys:
            if self.typing == "field" and key in ("up", "backtab"):
                self._go_back(selected)
                return None
            match line.press(key):
                case "back":
                    self.line, self.message = None, ""
                    return None
                case "accept" if self.typing == "field":
                    self._fill_in(selected, line.text, now)
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
        """Take keys of a message that is being typed; a paste becomes part of its text."""
        self.message = ""
        if not talk.text:
            talk.shown = self._read_by(now)
        done = talk.press(keys, now)
        if done is None or (done == "accept" and talk.text.strip() and not self._is_read(talk, now)):
            return None
        self.talk = None
        return Say(talk.session, talk.text, talk.began, talk.shown) if done == "accept" and talk.text.strip() else None

    def _is_read(self, talk: Talk, now: float) -> bool:
        """Whether a text may be sent: it is no bare chat word, or the person could read the selected card before
        they began to type."""
        word, approval = read_word(talk.text), self.approval
        is_bare = word is not None and word.approval is None
        if not is_bare or approval is None or approval.root_session != talk.session or self._may_decide(talk.began):
            return True
        talk.began = now  # the message on the screen says why, so a second Enter counts
        talk.shown = self._read_by(now + self.settle)
        return False

    def edit(self, approval: str, text: str, now: float) -> None:
        """Take edited arguments. A text that cannot be arguments is kept as a draft, and a message says why."""
        self.drafts[approval] = text
        try:
            arguments = read_exact(text, "it")
        except InvalidInput as error:
            self.message = f"That is not JSON, so nothing changed: {error}."
            return
        original = self.pending[approval].arguments
        if isinstance(original, dict) and not isinstance(arguments, dict):
            self.message = "That is JSON, but not an object of arguments, so nothing changed."
            return
        del self.drafts[approval]
        self.edited.pop(approval, None)
        self.seen.pop(approval, None)
        if arguments != original:
            self.edited[approval] = arguments
        self.message = "" if arguments != original else "The arguments are as they were."
        self._forget_shown(approval)
        self._select(approval, now)

    def _approve(self, selected: str, now: float) -> Decide | None:
        if not self._may_decide(now):
            return None
        edited: dict[str, Any] | None = self.edited.get(selected)
        return Decide(selected, Approve(by=self.by, arguments=edited, seen=self.seen.get(selected) or None))

    def _answer(self, asked: Approval, key: str, now: float) -> Decide | None:
        """Take a key on a question's card: a choice, yes or no, or `a`, which begins a typed answer."""
        keys = _answers(asked)
        if key in keys:
            return Decide(asked.id, Answer(value=keys[key], by=self.by)) if self._may_decide(now) else None
        if key == "a" and self._open_form(asked):
            return None
        if key in ("a", "j") and not keys:
            self.line, self.typing = Line(self.drafts.get(asked.id, "")), "answer"
        else:
            self.message = f"{key} does not answer this question. Its card lists the keys."
        return None

    def _answer_with(self, asked: Approval, text: str) -> Decide | None:
        """Take a typed answer. A text that is no valid answer is kept as a draft, and a message says why."""
        self.line, self.drafts[asked.id] = None, text
        try:
            value = read_answer(asked, text)
            check_answer(asked, value)
        except InvalidInput as error:
            self.message = f"{visible(str(error), kind='words')}. Press a to go on with it."
            return None
        if isinstance(value, str) and not value.strip():
            self.message = "The answer is empty. Press a to answer, d to decline."
            return None
        return Decide(asked.id, Answer(value=value, by=self.by))

    def _open_form(self, asked: Approval) -> bool:
        """Begin to fill in the fields of an approval, or go on; returns False for one without fields."""
        shown = replace(asked, arguments=self.edited.get(asked.id, asked.arguments))
        if asked.id not in self.forms:
            if (form := interview_of(shown)) is None:
                return False
            self.forms[asked.id] = form
        self._ask(asked.id)
        return True

    def _ask(self, selected: str) -> None:
        prompt = self.forms[selected].prompt
        self.line, self.typing = Line("" if prompt is None else prompt.text), "field"

    def _go_back(self, selected: str) -> None:
        self.message = "" if self.forms[selected].go_back() else "This is the first field."
        self._ask(selected)

    def _fill_in(self, selected: str, text: str, now: float) -> None:
        """Take a line of a form. After the last one, the person sees all of it before anything is decided."""
        form = self.forms[selected]
        if (problem := form.take(text)) is not None:
            self.message = f"{visible(problem, kind='words')}."
            return
        self.message = ""
        if form.prompt is not None:
            self._ask(selected)
        elif problems := form.reading.problems:
            form.go_back()
            self._ask(selected)
            self.message = f"{visible('; '.join(problems.values()), kind='words')}. Up goes back to a field."
        else:
            del self.forms[selected]
            written, self.line = json_text(form.reading.value), None
            if self.pending[selected].kind == "question":
                self.line, self.typing = Line(written), "answer"
            else:
                self.edit(selected, written, now)

    def _open_grants(self, selected: str, scope: Wider, now: float) -> None:
        """Show the patterns that the person may allow for longer than once; this decides nothing."""
        if selected in self.edited:
            self.message = "Edited arguments can only be approved once. r restores the original arguments."
        elif not grants(self.pending[selected], scope):
            self.message = "This can only be approved once: no safe pattern describes it."
        elif self._may_decide(now):
            self.granting, self._selected_at = scope, now

    def _grant(self, selected: str, key: str, now: float) -> Action | None:
        """Take a key while the patterns are shown."""
        if key == "v":
            return ShowWhole(selected)
        if key in ("esc", "backspace", "left"):
            self._select(selected, now)
        elif key.isdecimal() and 0 < int(key) <= len(self.wider):
            if self._may_decide(now):
                return Decide(selected, self.wider[int(key) - 1].approve(self.by))
        else:
            self.message = "Press the number of a pattern to allow it, or Esc to go back. Nothing is decided yet."
        return None

    def _may_decide(self, now: float) -> bool:
        """Whether the person could have read the selected card."""
        if now - self._selected_at < self.settle:
            self.message = "This card has just appeared, so the key did not count. Read it, then press again."
        elif self.face not in self.whole:
            self.message = "Not all of it fits here. Press v to see all of it, then press again."
        else:
            return True
        return False

    def _read_by(self, now: float) -> frozenset[str]:
        """Return the ids of the approvals that the person could have read at `now`: shown whole, not edited, and not
        selected only just before."""
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
