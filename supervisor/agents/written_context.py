"""What the tools of a framework write into the context of a run (`deps`), so that a later process has it, too.

A context is made anew in each attempt, and the calls of tools are not made again. So the journal has, with the result
of a call, what has changed in the context.

Rules
- Fields are those of the context itself: its attributes, or the keys of a dict. A field is tracked if its value
  round-trips at the start of the run: written as JSON and read as its type, it is equal. Others are handles, such as
  clients and pools, and nothing is promised of them. A field that a tool adds is tracked if its value round-trips.
- A field without a type, as a key of a dict, has that of its first value. Later it may have any plain JSON value, too.
  If a tool has added it, no later process would know its first value: then it may have plain JSON values only.
- A result holds the new values of all fields that differ from the last journaled state, whichever code has changed
  them. Values are set and not applied, so that a result may repeat what another one says. Of two results at once the
  one with the larger number is right.
- A replay sets the values on the context that the attempt has made.
- A tracked field that no longer round-trips, or is larger than LARGEST, fails the call once: the effect has happened,
  and a later process would not know of it. From then on the field is a handle.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any, Final, get_type_hints

import msgspec
from pydantic import TypeAdapter

from supervisor.core.declarations.foreign_tool import foreign_tool
from supervisor.core.declarations.tool_context import ToolContext
from supervisor.core.encoding import to_json
from supervisor.core.errors import InvalidInput
from supervisor.core.values import ToolResult
from supervisor.seam.context import Operations

LARGEST_BYTES: Final = 1_000_000
"""Bytes of the JSON of a field, at most."""
_KEY: Final = "context"
_NOTHING: Final = object()
_PLAIN: Final = (type(None), bool, int, float, str, list, dict)
_ANY: Final[TypeAdapter[Any]] = TypeAdapter(Any)


class _Field:
    """The type of a field, and its last journaled value as JSON."""

    def __init__(self, hint: Any, value: Any, *, is_added: bool = False) -> None:
        has_type = hint not in (Any, _NOTHING)
        self._kind = None if has_type or is_added else type(value)
        """The type of the first value, for a field that has none."""
        self._adapter: TypeAdapter[Any] = TypeAdapter(hint if has_type else self._kind or Any)
        self.text = self.write(value)
        self.number = 0

    def is_plain(self, value: Any) -> bool:
        """Whether a field without a type has a plain JSON value of another type than its first one."""
        return self._kind is not None and type(value) is not self._kind and type(value) in _PLAIN

    def read(self, text: bytes, *, is_plain: bool) -> Any:
        return json.loads(text) if is_plain and self._kind is not None else self._adapter.validate_json(text)

    def write(self, value: Any) -> bytes:
        """Return a value as JSON. Raises an exception if it does not round-trip."""
        is_plain = self.is_plain(value)
        adapter = _ANY if is_plain else self._adapter
        text = adapter.dump_json(value, by_alias=True, round_trip=True, warnings=False)
        back = self.read(text, is_plain=is_plain)
        if type(back) is not type(value) or back != value:
            raise ValueError("read back from JSON it is another value")
        to_json(json.loads(text), "it")
        return text


class WrittenContext:
    """The context of one attempt. `context`: any object; one without fields has nothing to keep."""

    def __init__(self, agent: str, context: Any) -> None:
        self.context = context
        self._agent = agent
        self._number = 0
        self._hints = _hints_of(context)
        self._handles: set[str] = set()
        self._fields: dict[str, _Field] = {}
        for name, value in _fields_of(context).items():
            self._track(name, value)

    def _track(self, name: str, value: Any) -> bool:
        """Track a field; False for a handle."""
        try:
            self._fields[name] = _Field(self._hints.get(name, _NOTHING), value)
        except Exception:  # noqa: BLE001 # pydantic and the user's types may raise anything
            self._handles.add(name)
            return False
        return True

    def _added(self, name: str, value: Any) -> _Field:
        """Return a field that a tool has added. Raises an exception if its value does not round-trip."""
        return _Field(self._hints.get(name, _NOTHING), value, is_added=True)

    async def call(
        self,
        operations: Operations,
        name: str,
        fn: Callable[[ToolContext, Mapping[str, Any]], Awaitable[ToolResult[Any]]],
        shown: Mapping[str, Any],
        *,
        refusal: str,
        because: str = "",
        **options: Any,
    ) -> ToolResult[Any]:
        """Call a tool that may write into the context. `name`: AGENT.TOOL; `shown`: its arguments; `refusal`: why it
        cannot be called; `options`: those of `foreign_tool`."""
        is_replayed = True

        async def run(context: ToolContext, arguments: Mapping[str, Any]) -> ToolResult[Any]:
            nonlocal is_replayed
            is_replayed = False
            return self.with_changes(name.rpartition(".")[2], await fn(context, arguments))

        tool = foreign_tool(name, run, **options)
        tool.refusal = refusal
        result = await operations.call(tool, shown, because=because)
        self.take(result, is_replayed=is_replayed)
        return result

    def with_changes(self, tool: str, result: ToolResult[Any]) -> ToolResult[Any]:
        """Return the result of a call that has just run, with what has changed in the context."""
        now, new, lost, plain = _fields_of(self.context), dict[str, Any](), dict[str, str](), list[str]()
        for name, value in now.items():
            if name in self._handles:
                continue
            known = self._fields.get(name)
            try:
                text = self._added(name, value).text if known is None else known.write(value)
            except Exception as error:  # noqa: BLE001 # as above
                if known is None:
                    self._handles.add(name)
                else:
                    lost[name] = str(error)
                continue
            if known is not None and text == known.text:
                continue
            if len(text) > LARGEST_BYTES:
                lost[name] = f"it has {len(text)} bytes as JSON, and {LARGEST_BYTES} at most are kept"
            else:
                new[name] = json.loads(text)
                plain += [name] if known is not None and known.is_plain(value) else []
        gone = [name for name in self._fields if name not in now]
        if not (new or gone or lost):
            return result
        self._number += 1
        changes = {"number": self._number, "set": new, "plain": plain, "gone": gone, "lost": [*lost]}
        details = {**result.details, _KEY: {name: said for name, said in changes.items() if said}}
        if lost:
            told = "; ".join(f"{name}: {why}" for name, why in lost.items())
            why = (
                f"tool {tool} has run, but what it wrote into the context of agent {self._agent} is lost when the "
                f"process ends ({told}). Give the field a type that JSON can hold, and annotate it (a dict has no "
                "annotations: make it a dataclass); or keep the value in a file or a database, and its name in the "
                "context"
            )
            details |= {"reason": "context", "effect": "done"}
            return ToolResult(kind="error", content=why, details=details)
        return msgspec.structs.replace(result, details=details)

    def take(self, result: ToolResult[Any], *, is_replayed: bool) -> None:
        """Note what a journaled result says of the context; a replay sets it. Raises InvalidInput for a value that
        today's type cannot hold."""
        said = result.details.get(_KEY)
        if not isinstance(said, Mapping):
            return
        number = said["number"]
        self._number = max(self._number, number)
        for name in said.get("lost", ()):
            self._fields.pop(name, None)
            self._handles.add(name)
        for name in said.get("gone", ()):
            if (known := self._fields.get(name)) is not None and known.number < number:
                del self._fields[name]
                if is_replayed:
                    _drop(self.context, name)
        for name, value in said.get("set", {}).items():
            self._set(name, value, number, is_plain=name in said.get("plain", ()), is_replayed=is_replayed)

    def _set(self, name: str, value: Any, number: int, *, is_plain: bool, is_replayed: bool) -> None:
        known, text = self._fields.get(name), json.dumps(value).encode()
        if known is not None and known.number > number:
            return
        try:
            if known is None:
                current = _fields_of(self.context).get(name, value)
                known = self._added(name, value if is_replayed else current)
            read = known.read(text, is_plain=is_plain)
            known.text = known.write(read)
        except Exception as error:  # noqa: BLE001 # as above
            raise InvalidInput(
                f"agent {self._agent}: the journal has a value for {name} of its context, and today's type cannot hold "
                f"it ({error}): let the type accept what a former version wrote"
            ) from None
        known.number = number
        self._handles.discard(name)
        self._fields[name] = known
        if is_replayed:
            _put(self.context, name, read)


def _fields_of(context: Any) -> Mapping[str, Any]:
    """Return the fields of a context with their values: the keys of a dict, else its attributes."""
    if isinstance(context, dict):
        return {name: value for name, value in context.items() if isinstance(name, str)}
    found = dict(getattr(context, "__dict__", {}))
    for kind in type(context).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if not name.startswith("__") and hasattr(context, name):
                found[name] = getattr(context, name)
    return {**found, **(getattr(context, "__pydantic_extra__", None) or {})}


def _hints_of(context: Any) -> Mapping[str, Any]:
    """Return the annotations of a context's fields."""
    if isinstance(context, dict):
        return {}
    try:
        return get_type_hints(type(context), include_extras=True)
    except Exception:  # noqa: BLE001 # names that only type checkers see
        return {}


def _put(context: Any, name: str, value: Any) -> None:
    if isinstance(context, MutableMapping):
        context[name] = value
        return
    try:
        setattr(context, name, value)
    except Exception:  # noqa: BLE001 # it is frozen, and a tool has changed the value in its place
        object.__setattr__(context, name, value)


def _drop(context: Any, name: str) -> None:
    if isinstance(context, MutableMapping):
        context.pop(name, None)
    elif hasattr(context, name):
        delattr(context, name)
