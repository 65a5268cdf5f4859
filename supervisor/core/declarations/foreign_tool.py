"""Tools that others define: a name, an optional JSON schema, and a function of one mapping.

    async def execute(arguments: Mapping[str, Any]) -> str: ...

    tool = foreign_tool("reviewer.execute", execute, command="command")
    result = await ctx.call(tool, {"command": "git status"})

The tools of an MCP server, of another framework or of another agent are known only while a program runs, and there may
be thousands. So the function may be a closure, and nothing keeps a tool after its call. A replay makes the tool again
and passes it again; no table of tools is needed.

Rules
- The arguments are the names and values of the mapping: nothing is filled in, and no type is converted.
- The schema is shown to models as it is. What a model offers and what a person edits is checked against it, as far as
  core/declarations/foreign_schema.py can; what the agent's own code passes is not. What can be checked of it is
  journaled with a request that a person may edit, unless it is too long: so each process refuses an edit that does not
  fit. The schema alone says which arguments an edit has: without one, any.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from typing import Any, Final

import msgspec

from supervisor.core.declarations.foreign_schema import checkable
from supervisor.core.declarations.previews import OnChange
from supervisor.core.declarations.schemas import schema_misfit
from supervisor.core.declarations.signatures import signature_of
from supervisor.core.declarations.tool_spec import ToolSpec
from supervisor.core.encoding import JSON_NULL, from_json, to_json
from supervisor.core.errors import InvalidInput
from supervisor.core.text.visible import is_visible
from supervisor.core.values import Policy

ANY_OBJECT: Final = {"type": "object"}
MOST_SCHEMA_BYTES: Final = 10_000
"""Bytes of the longest schema that is journaled with a request."""
_ANY: Final = to_json(ANY_OBJECT, "a schema")
"""Is journaled with a request whose schema is too long: the process that runs the call checks it alone."""
_NAME: Final = re.compile(r"[^\s/#:*]{1,128}")
"""A name is part of the ids of operations, which have "/", "#" and ":" in them; a rule is on one tool, without "*"."""


def foreign_tool(
    name: str,
    fn: Callable[..., Awaitable[Any]],
    *,
    schema: Mapping[str, Any] | None = None,
    description: str = "",
    policy: Policy | Callable[[Mapping[str, Any]], Policy] = "ask",
    timeout: float | None = 30.0,
    idempotent: bool = False,
    editable: bool = True,
    command: str | None = None,
    claims: Sequence[str] = (),
    secret: Sequence[str] = (),
    path: str | None = None,
    paths: Sequence[str] = (),
    edits: str | Sequence[str] = (),
    preview: Callable[..., Any] | None = None,
    on_change: OnChange = "deny",
) -> ToolSpec[[Mapping[str, Any]], Any]:
    """Make a tool of a function of one mapping, for `ctx.call(tool, {...})` or an agent's `tools`.

    `name`: what rules match and people see; it may have dots. `fn`: `async def fn(arguments)`, or with a ToolContext or
    a ProcessToolContext first; it may be a closure or a method.
    `schema`: the JSON schema of the mapping, shown to models as it is. Arguments from a model, or from a person who
    edits them, must fit it. Checked are: types, enum, const, properties, required, additionalProperties, propertyNames,
    items, prefixItems, bounds, anyOf, allOf, oneOf (at least one must fit) and references within it. All else is left
    to the function, such as `not`, `if`, patterns and formats. None: any object.
    `claims`: names of arguments that are the caller's own words about the call, such as a title. People see them, and
    rules do not. The last part of the name, after a dot, is a claim then, too: a rule that denies or asks by arguments
    counts whatever that part is. A call with nothing but claims can be allowed once only, by a person.
    `policy` as a callable, and `preview`, get the mapping. All other options are as in `tool`.
    Raises ValueError or TypeError for options that cannot work.
    """
    options: dict[str, Any] = {"policy": policy, "timeout": timeout, "idempotent": idempotent}
    options |= {"editable": editable, "command": command, "secret": secret, "path": path, "paths": paths}
    options |= {"edits": edits, "preview": preview, "on_change": on_change}
    return _ForeignTool(name, fn, schema, description, tuple(claims), **options)


class _ForeignTool(ToolSpec[[Mapping[str, Any]], Any]):
    def __init__(
        self,
        name: str,
        fn: Callable[..., Awaitable[Any]],
        schema: Mapping[str, Any] | None,
        description: str,
        claims: tuple[str, ...],
        **options: Any,
    ) -> None:
        if not _NAME.fullmatch(name) or not is_visible(name, "words"):
            raise ValueError(
                f"{name!r} cannot name a tool: use 1 to 128 visible characters without spaces, '/', '#', ':' and '*'"
            )
        super().__init__(fn, name=name, **options)
        self.claims = claims
        self.__doc__ = description
        self._schema = _object_schema(name, schema)
        self.value_type = self.return_type = Any

    def _take_parameters(self) -> None:
        parameters = list(signature_of(self.fn).parameters.values())
        self._take_context(parameters[0] if parameters else None)
        if len(parameters) != 1 + self.takes_context or parameters[-1].kind not in _BY_POSITION:
            raise TypeError(
                f"tool {self.name}: its function takes one mapping of arguments, and before it a ToolContext if it is "
                "annotated as one"
            )

    def _check_previewed(self, found: Sequence[inspect.Parameter]) -> None:
        if len(found) != 1 or found[0].kind not in _BY_POSITION:
            raise TypeError(f"tool {self.name}: its preview takes one mapping of arguments, as its function does")

    @property
    def parameter_names(self) -> Collection[str]:
        return ()  # its function takes one mapping

    @property
    def keeps_deadline(self) -> bool:
        return False

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        if kwargs or len(args) != 1 or not isinstance(args[0], Mapping):
            raise TypeError(f"tool {self.name} takes one mapping of arguments: ctx.call(tool, {{...}})")
        if not all(isinstance(name, str) for name in args[0]):
            raise TypeError(f"tool {self.name}: the names of arguments are text")
        passed = dict(args[0])
        return passed, passed.copy()

    def defaults_in(self, raw: msgspec.Raw | bytes) -> tuple[str, ...]:
        return ()  # its schema may name defaults, but only its function knows whether they hold

    def default_values_beyond(self, raw: msgspec.Raw | bytes) -> msgspec.Raw:
        return JSON_NULL

    def spread(self, arguments: Mapping[str, Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        return (arguments,), {}

    @property
    def offered(self) -> Sequence[inspect.Parameter]:
        return ()

    @property
    def offered_names(self) -> list[str]:
        found = self._schema.get("properties")
        return list(found) if isinstance(found, Mapping) else []

    def parameters_schema(self) -> dict[str, Any]:
        return deepcopy(self._schema)

    def decode_arguments(self, raw: msgspec.Raw | bytes) -> dict[str, Any]:
        return from_json(raw, dict[str, Any], self.arguments_text)  # type: ignore[no-any-return] # as decoded

    def read_offered(self, raw: msgspec.Raw | bytes) -> None:
        problem = schema_misfit(self.decode_arguments(raw), self._checkable)
        if problem is not None:
            told = f"{' or '.join(self.secret)} may not be shown" if self.secret else problem
            raise InvalidInput(f"{self.arguments_text} do not fit its schema: {told}")

    def read_edited(self, raw: msgspec.Raw | bytes) -> dict[str, Any]:
        self.read_offered(raw)
        return self.decode_arguments(raw)

    @property
    def edit_schema(self) -> msgspec.Raw:
        found = to_json(self._checkable, f"the schema of tool {self.name}")
        return found if len(bytes(found)) <= MOST_SCHEMA_BYTES else _ANY

    def _parameters_told(self, *, is_former: bool = False) -> msgspec.Raw:
        return JSON_NULL  # the schema that edits are checked against says it

    @cached_property
    def _checkable(self) -> dict[str, Any]:
        return checkable(self._schema)


_BY_POSITION: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _object_schema(name: str, schema: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a copy of the schema; raises ValueError unless it is JSON, and the schema of an object."""
    if schema is None:
        return ANY_OBJECT
    found: dict[str, Any] = msgspec.json.decode(to_json(dict(schema), f"the schema of tool {name}"))
    if found.get("type", "object") not in ("object", ["object"]):
        raise ValueError(f"tool {name}: the arguments are an object, so its schema has the type object")
    return found
