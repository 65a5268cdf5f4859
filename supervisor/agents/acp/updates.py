"""What an agent says of its work: its messages, its calls, and its plan. All is reported; little is kept.

Rules
- All of it is reported as the agent's own words (Context.report), what is unknown, too. Updates about the agent's
  settings are left out.
- The pieces of a message are one report. It is made when something else comes, or when the turn ends. Until then they
  are shown as they come (Context.stream), after all reports that were made before.
- A call that has ended is forgotten, unless its end is waited for. So a long turn does not grow.
"""

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

import anyio
import msgspec

from supervisor.agents.acp.permissions import KINDS, MAX_CLAIM_CHARACTERS
from supervisor.core.usage import LARGEST_USD

WORK: Final = ("read", "edit", "delete", "move", "search", "execute", "fetch")
LONGEST_CHARACTERS: Final = 1_000_000  # characters of one message that are kept
_ENDED: Final = ("completed", "failed")
_SILENT: Final = (
    "user_message_chunk",
    "available_commands_update",
    "current_mode_update",
    "config_option_update",
    "session_info_update",
)
_SHOW: Final = "show"
"""A piece of a message among the reports to make: it is shown, and not reported."""
_LISTS: Final = ("content", "locations")
_JOINED_CHARACTERS: Final = 10_000  # characters of the pieces that are shown as one, if they wait
_PIECES: Final = {"agent_message_chunk": "text", "agent_thought_chunk": "thought"}


class Report(Protocol):
    """Context.report."""

    async def __call__(
        self, kind: Any, text: str, /, *, tool: str | None = None, call: str | None = None, is_error: bool = False
    ) -> None: ...


class Ending(msgspec.Struct, eq=False):
    """The end of a call that is waited for. `told`: all that the agent has said of the call."""

    told: dict[str, Any]
    over: anyio.Event


class Updates:
    """The updates of one process. `carry` makes the reports, in a task of its own, and shows the pieces of messages by
    `stream`."""

    def __init__(self, agent: str, report: Report, stream: Callable[[str], None]) -> None:
        self.said = ""
        """The last message of the agent."""
        self.cost: float | None = None
        """What the agent says that its session has cost so far, in dollars."""
        self._agent = agent
        self._report = report
        self._stream = stream
        self._calls: dict[str, dict[str, Any]] = {}
        """The words about each call that has not ended."""
        self._endings: dict[str, Ending] = {}
        self._kind = ""
        """The kind of the message whose pieces come; empty if none does."""
        self._pieces: list[str] = []
        self._length = 0
        self._to_report: deque[tuple[str, str, dict[str, Any]]] = deque()
        self._has_more = anyio.Event()
        self._reporting = anyio.Lock()

    def take(self, kind: str, update: Mapping[str, Any]) -> None:
        if kind in _PIECES:
            self._add_piece(_PIECES[kind], _text_of(update.get("content")))
        elif kind == "usage_update":
            self._take_cost(update.get("cost"))
        elif kind not in _SILENT:
            self._end_message()
            self._take_whole(kind, update)

    def _take_cost(self, cost: Any) -> None:
        if isinstance(cost, Mapping) and cost.get("currency") == "USD":
            amount = cost.get("amount")
            if isinstance(amount, int | float) and not isinstance(amount, bool) and 0 <= amount <= LARGEST_USD:
                self.cost = float(amount)

    def note_call(self, call: str, told: Mapping[str, Any]) -> dict[str, Any]:
        """Add what the agent says of a call; return all that it has said of it. What is no list where the protocol has
        one is its only part."""
        self._end_message()
        known = self._calls.setdefault(call, {})
        known.update({name: value for name, value in told.items() if value is not None})
        known.update({name: [known[name]] for name in _LISTS if not isinstance(known.get(name, []), list)})
        return known

    def expect_end(self, call: str) -> Ending:
        """Return the end of a call, which comes with an update or with the end of the turn."""
        ending = self._endings[call] = Ending(self._calls.get(call, {}), anyio.Event())
        return ending

    @property
    def running(self) -> frozenset[str]:
        """The agent's ids of the calls that it has reported as running. A call of another kind than WORK may be a
        sub-agent, which runs although all that it does waits for a person."""
        running = (call for call, told in self._calls.items() if told.get("status") == "in_progress")
        return frozenset(call for call in running if _kind(self._calls[call]) in WORK)

    def end_turn(self) -> None:
        """End what is open: the agent has stopped, or is gone."""
        self._end_message()
        self._calls.clear()
        for ending in self._endings.values():
            ending.over.set()
        self._endings.clear()

    # -- reports -------------------------------------------------------------------------------------------------------

    async def carry(self) -> None:
        while True:
            await self._has_more.wait()
            self._has_more = anyio.Event()
            await self.report_all()

    async def report_all(self) -> None:
        """Make all reports that are due."""
        async with self._reporting:
            while self._to_report:
                kind, text, about = self._to_report.popleft()
                if kind == _SHOW:
                    self._stream(text)
                else:
                    await self._report(kind, text, **about)

    def _tell(self, kind: str, text: str, **about: Any) -> None:
        self._to_report.append((kind, text, about))
        self._has_more.set()

    def _take_whole(self, kind: str, update: Mapping[str, Any]) -> None:
        if kind in ("tool_call", "tool_call_update") and isinstance(update.get("toolCallId"), str):
            self._take_call(update["toolCallId"], update)
        elif kind == "plan" and isinstance(update.get("entries"), list):
            self._tell("plan", "\n".join(_entry(each) for each in update["entries"]))
        else:
            self._tell("text", f"[{kind}] {msgspec.json.encode(update).decode()}")

    def _take_call(self, call: str, update: Mapping[str, Any]) -> None:
        is_new = call not in self._calls
        told = self.note_call(call, update)
        status, tool = told.get("status"), f"{self._agent}.{_kind(told)}"
        if is_new or (has_given(update) and not told.get("is_told")):
            told["is_told"] = has_given(told)
            self._tell("call", _call_text(told), tool=tool, call=call)
        if status in _ENDED:
            self._tell("result", result_text(told), tool=tool, call=call, is_error=status == "failed")
            del self._calls[call]
            if (ending := self._endings.pop(call, None)) is not None:
                ending.told = told
                ending.over.set()

    def _add_piece(self, kind: str, text: str) -> None:
        if self._kind != kind:
            self._end_message()
            self._kind = kind
        if self._length < LONGEST_CHARACTERS:
            self._pieces.append(text[: LONGEST_CHARACTERS - self._length])
            self._show(self._pieces[-1])
        self._length += len(text)

    def _show(self, text: str) -> None:
        if self._to_report and self._to_report[-1][0] == _SHOW and len(self._to_report[-1][1]) < _JOINED_CHARACTERS:
            text = self._to_report.pop()[1] + text
        self._tell(_SHOW, text)

    def _end_message(self) -> None:
        if not self._kind:
            return
        kind, text, missing = self._kind, "".join(self._pieces), self._length - LONGEST_CHARACTERS
        self._kind, self._pieces, self._length = "", [], 0
        if missing > 0:
            text += f"\n[{missing} characters more]"
        if kind == "text" and text.strip():
            self.said = text
        if text:
            self._tell(kind, text)


def has_given(told: Mapping[str, Any]) -> bool:
    """Return whether the raw input of a call is known."""
    return told.get("rawInput") not in (None, {}, [], "")


def result_text(told: Mapping[str, Any]) -> str:
    """Return what a call gave, in the agent's words: its content, or else its raw output."""
    parts = [_content(each) for each in told.get("content") or () if isinstance(each, Mapping)]
    text = "\n".join(part for part in parts if part)
    if not text and (output := told.get("rawOutput")) not in (None, {}, ""):
        text = output if isinstance(output, str) else msgspec.json.encode(output).decode()
    return text[:MAX_CLAIM_CHARACTERS]


def _call_text(told: Mapping[str, Any]) -> str:
    title = str(told.get("title") or "")
    return f"{title} {msgspec.json.encode(told['rawInput']).decode()}".strip() if has_given(told) else title


def _kind(told: Mapping[str, Any]) -> str:
    return told["kind"] if told.get("kind") in KINDS else "other"


def _content(part: Mapping[str, Any]) -> str:
    return f"[changes {part.get('path')}]" if part.get("type") == "diff" else _text_of(part.get("content"))


def _text_of(content: Any) -> str:
    if not isinstance(content, Mapping):
        return ""
    text = content.get("text")
    return text if isinstance(text, str) else f"[{content.get('type')}]"


def _entry(entry: Any) -> str:
    return f"{entry.get('status')}: {entry.get('content')}" if isinstance(entry, Mapping) else str(entry)
