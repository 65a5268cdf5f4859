"""Messages that people keep themselves, in the shapes of four APIs: a result for every call that has none.

Theory: an API refuses a conversation with a call without a result, so one crash between the two makes it unusable. The
rules are those of a session's repair (`core/sessions/transcript.py`). The shapes differ only in where a message has its
calls and results, and in what a synthesised result looks like.

Rules:
- No message is changed, moved or removed. In OpenAI's two shapes a result is a message of its own. In those of
  Anthropic and Gemini the results of one message are together: a synthesised one joins those of its siblings, in a copy
  of their message, or gets a message directly after its call's.
- A result counts wherever it is, if only one call has its id. Where several calls have one id, or none (Gemini), they
  are paired by occurrence, between two messages of the assistant.
- A call that a server runs needs no result. A call that we cannot answer is an error: an API would refuse the list.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Final, NamedTuple, TypeAlias

from supervisor.core.errors import InvalidInput
from supervisor.core.sessions.transcript import TEXT, Dangling, Pairing

Message: TypeAlias = dict[str, Any]

_ITEMS: Final[dict[str, dict[str, Any] | None]] = {
    "function_call": {"output": TEXT},
    "custom_tool_call": {"output": TEXT},
    "local_shell_call": {"output": TEXT},
    "shell_call": {"output": [{"stdout": "", "stderr": TEXT, "outcome": {"type": "exit", "exit_code": 1}}]},
    "apply_patch_call": {"status": "failed", "output": TEXT},
    "tool_search_call": {"status": "completed", "execution": "client", "tools": []},
    "computer_call": None,  # its output is a picture
}
"""The calls of the Responses API that its user answers, and what their outputs say."""
_OUTPUT_OF: Final = {kind: f"{kind}_output" for kind in _ITEMS} | {"tool_search_call": "tool_search_output"}
_OUTPUTS: Final = frozenset(_OUTPUT_OF.values())
_IN_ITEMS: Final = _OUTPUTS | _ITEMS.keys()
_PARTS: Final = {"functionCall": "functionResponse", "function_call": "function_response"}
"""Gemini's names, in JSON and in its Python library."""


class _Call(NamedTuple):
    key: Hashable
    result: dict[str, Any] | None
    """The message, or the block of a message, that answers the call; None if there can be none."""
    holder: str | None = None
    """Where a message has such blocks: `content` or `parts`. None if the result is a message."""


def repair_messages(messages: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the messages with a result for every tool call that has none: the execution was lost, and may have run.

    The messages are dictionaries in the shape of OpenAI (Chat Completions or Responses), Anthropic or Gemini. Use this
    before an interrupted conversation goes on, and not while a call runs or waits for a person. Nothing else changes,
    and the given list stays as it is. Raises InvalidInput for a message that is no dictionary, and for a call that
    cannot be answered, such as one without an id.
    """
    given = [_dictionary(at, message) for at, message in enumerate(messages)]
    calls: list[list[_Call]] = []
    names = _names_of_parts(given)
    framed, items = Pairing(), Pairing(framed=False)
    for at, message in enumerate(given):
        pairing = items if _known(message, "type") in _IN_ITEMS else framed
        if message.get("role") in ("assistant", "model"):
            pairing.frame(at)
        try:
            calls.append([*_calls_of(message, names)])
        except InvalidInput as error:
            raise InvalidInput(f"message {at}: {error}") from None
        for call in calls[at]:
            pairing.call(at, call.key)
        for key in _results_of(message, names):
            pairing.result(at, key)
    often = Counter(call.key for made in calls for call in made)
    lost = [
        call
        for pairing in (framed, items)
        for call in pairing.findings({key for key in pairing.astray() if often[key] == 1}).dangling
    ]
    return _with_results(given, calls, lost)


def _with_results(given: list[Message], calls: list[list[_Call]], lost: list[Dangling]) -> list[Message]:
    added: defaultdict[int, list[Message]] = defaultdict(list)
    together: defaultdict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for place in lost:
        call = calls[place.at][place.nth]
        if call.result is None:
            raise InvalidInput(
                f"message {place.at}: only a picture can answer a computer_call; add its output, or remove it"
            )
        if call.holder is None:
            added[place.after].append(call.result)
        else:
            together[place.after, call.holder].append(call.result)
    repaired = given.copy()
    for (at, holder), blocks in together.items():
        if not calls[at] and any(_is_result(block) for block in _mappings(given[at].get(holder))):
            repaired[at] = {**given[at], holder: _joined(given[at][holder], blocks)}
        else:  # no sibling has such a result: this is the call's own message, or a result of another shape
            added[at].append({"role": "user", holder: blocks})
    return [each for at, message in enumerate(repaired) for each in (message, *added[at])]


def _joined(had: list[Any], blocks: list[dict[str, Any]]) -> list[Any]:
    """Add blocks after the last result: what a person says comes after all results."""
    last = max(at for at, block in enumerate(had) if isinstance(block, Mapping) and _is_result(block))
    return [*had[: last + 1], *blocks, *had[last + 1 :]]


def _is_result(block: Mapping[str, Any]) -> bool:
    return block.get("type") == "tool_result" or any(name in block for name in _PARTS.values())


def _calls_of(message: Message, names: frozenset[Any]) -> Iterator[_Call]:
    """Read the calls of a message, in order."""
    kind = message.get("type")
    if (
        isinstance(kind, str)
        and kind in _ITEMS
        and (kind != "tool_search_call" or message.get("execution") == "client")
    ):
        yield _item(kind, message)
    for call in _mappings(message.get("tool_calls")):
        own = _text(call, "id", "tool call")
        yield _Call(("tool", own), {"role": "tool", "tool_call_id": own, "content": TEXT})
    function = message.get("function_call")
    if isinstance(function, Mapping):  # the shape of Chat Completions before there were tools
        own = _text(function, "name", "function call")
        yield _Call(("function", own), {"role": "function", "name": own, "content": TEXT})
    for block in _mappings(message.get("content")):
        if block.get("type") == "tool_use":
            own = _text(block, "id", "tool_use block")
            result = {"type": "tool_result", "tool_use_id": own, "content": TEXT, "is_error": True}
            yield _Call(("tool_result", own), result, "content")
    for part in _mappings(message.get("parts")):
        for called, answered in _PARTS.items():
            if isinstance(function := part.get(called), Mapping):
                name = _text(function, "name", "function call")
                told = {key: function[key] for key in ("id", "name") if function.get(key)}
                key = ("part", name if name in names else _known(function, "id") or name)
                yield _Call(key, {answered: {**told, "response": {"error": TEXT}}}, "parts")


def _item(kind: str, call: Message) -> _Call:
    own = _text(call, "call_id", kind)
    key = (_OUTPUT_OF[kind], own)
    told = _ITEMS[kind]
    if told is None:
        return _Call(key, None)
    return _Call(
        key, {"type": _OUTPUT_OF[kind], "id" if kind == "local_shell_call" else "call_id": own, **deepcopy(told)}
    )


def _results_of(message: Message, names: frozenset[Any]) -> Iterator[Hashable]:
    kind, role = message.get("type"), message.get("role")
    if isinstance(kind, str) and kind in _OUTPUTS:
        yield kind, _known(message, "call_id", "id")
    if role == "tool":
        yield "tool", _known(message, "tool_call_id")
    elif role == "function":
        yield "function", _known(message, "name")
    for block in _mappings(message.get("content")):
        if block.get("type") == "tool_result":
            yield "tool_result", _known(block, "tool_use_id")
    for part in _mappings(message.get("parts")):
        for response in (part.get(name) for name in _PARTS.values()):
            if isinstance(response, Mapping):
                name = _known(response, "name")
                yield "part", name if name in names else _known(response, "id") or name


def _names_of_parts(messages: list[Message]) -> frozenset[Any]:
    """Return the names of Gemini's functions of which a call or a response has no id: these are paired by name."""
    parts = [part for message in messages for part in _mappings(message.get("parts"))]
    functions = [part.get(key) for part in parts for pair in _PARTS.items() for key in pair]
    return frozenset(_known(each, "name") for each in functions if isinstance(each, Mapping) and not _known(each, "id"))


def _dictionary(at: int, message: Any) -> Message:
    if not isinstance(message, Mapping):
        raise InvalidInput(
            f"message {at} is a {type(message).__name__}, not a dictionary; convert it first, for example with "
            "model_dump(exclude_none=True)"
        )
    return message if isinstance(message, dict) else dict(message)


def _mappings(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list | tuple):
        yield from (item for item in value if isinstance(item, Mapping))


def _known(value: Mapping[str, Any], *keys: str) -> str | None:
    """Return the first of these values that is a text and not empty."""
    return next((found for key in keys if isinstance(found := value.get(key), str) and found), None)


def _text(call: Mapping[str, Any], key: str, what: str) -> str:
    own = _known(call, key)
    if own is None:
        raise InvalidInput(f"a {what} without its {key!r} cannot be answered; remove it, or complete it")
    return own
