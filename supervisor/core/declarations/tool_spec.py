"""Declarations of tools: what the supervisor must know of a tool before it is called: its policy and its deadline.

Rules
- A tool's arguments can be encoded. Its first parameter may be a ToolContext, which is not an argument; a
  ProcessToolContext declares that the tool starts processes.
- Arguments and results are converted in one place by msgspec: JSON on disk, the annotated types in Python.

The module is longer than 400 lines because a type checker needs each overload of `tool` in full.
"""

import inspect
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, time
from functools import cached_property, reduce
from operator import or_
from types import UnionType
from typing import (
    Annotated,
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    Protocol,
    TypeVar,
    Union,
    get_args,
    get_origin,
    overload,
)

import msgspec

from supervisor.core.budgets import TOOL as BUDGET
from supervisor.core.declarations.previews import OnChange, PreviewContext
from supervisor.core.declarations.schemas import refuse_unknown
from supervisor.core.declarations.signatures import (
    DeclaredFunction,
    accepts_context,
    awaits,
    hint_of,
    is_named,
    is_plain,
    signature_of,
)
from supervisor.core.declarations.tool_context import ProcessToolContext, ToolContext
from supervisor.core.encoding import JSON_NULL, from_json, to_json
from supervisor.core.errors import InvalidInput
from supervisor.core.limits import checked_limit, checked_name
from supervisor.core.values import Policy, ToolResult

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
_PLAIN: Final = ({"type": "string"}, {"type": "boolean"})
"""Schemas that say no more than a value does."""
_FORMATS: Final[Mapping[Any, str]] = {datetime: "date-time", time: "time"}
"""The formats of types of which a text has no zone, or may have one."""
MOST_SECONDS: Final = 600.0
"""The longest deadline that a model may choose for a call, if nothing else is declared."""
MOST_PARAMETERS_BYTES: Final = 4_000
"""Bytes of the longest schema of a tool's own arguments that is journaled with a request."""
_POLICIES: Final = get_args(Policy)
_VARIADIC: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)

CONTEXTS: Final[Mapping[str, type]] = {"ToolContext": ToolContext, "ProcessToolContext": ProcessToolContext}
"""The annotations of a first parameter that is not an argument."""


class ToolSpec(DeclaredFunction, Generic[P, R_co]):
    """A function tool: its policy, its deadline, and whether it may run twice. Made by `tool`."""

    is_ready: Callable[[Callable[[], None]], bool] | None = None
    """Whether an approved call may begin now. If it may not, the call waits, still approved, until the function that is
    passed was called, and asks again. It raises ToolFailed for a call that will never begin. None: an approved call
    begins at once."""
    refusal: str = ""
    """Why its call cannot be made, for a tool that was made for one call; "" if it can. See Call.refusal."""
    waits: bool = False
    """Whether its calls only wait, and count in no budget of their run (W5)."""
    limit: str | None = None
    """The name of the Limit of which a call holds a place while it runs (L1)."""
    queue: str | None = None
    """On Temporal, the name of the queue whose workers run its calls."""
    preview: Callable[..., Any] | None = None
    """Says what a call would do, for the person who decides it, and reads only (A18)."""
    claimed: str = ""
    """What its caller says that a call would do, for a tool that was made for one call: evidence of the kind claim."""
    added: frozenset[str] = frozenset()
    """Parameters that a later version of the tool has added. Where a call does not give one, its arguments do not name
    it: so a call that has waited since before has the arguments that its approver was shown (A8)."""

    def __init__(
        self,
        fn: Callable[..., Awaitable[Any]],
        *,
        name: str | None = None,
        policy: Policy | Callable[..., Policy] = "ask",
        timeout: float | None = 30.0,
        max_timeout: float = MOST_SECONDS,
        idempotent: bool = False,
        editable: bool = True,
        command: str | None = None,
        secret: Sequence[str] = (),
        path: str | None = None,
        paths: Sequence[str] = (),
        edits: str | Sequence[str] = (),
        limit: str | None = None,
        queue: str | None = None,
        preview: Callable[..., Any] | None = None,
        on_change: OnChange = "deny",
    ) -> None:
        super().__init__(fn, name, "tool")
        self.asks_model = False
        """Whether its calls ask a model, or answer a program that goes on to ask one: budgets bound them so (B2)."""
        if self.name == BUDGET:
            raise ValueError(f"tool {self.name}: this name stands for questions about budgets; give it another one")
        self.is_plain = is_plain(fn)
        """Whether the function runs in a thread, since neither it nor the function that it wraps is async."""
        self.awaits = awaits(fn)
        if not callable(policy) and policy not in _POLICIES:
            raise ValueError(f"tool {self.name}: policy is 'allow', 'ask', 'deny' or a callable, not {policy!r}")
        if timeout is not None and not timeout > 0:
            raise ValueError(f"tool {self.name}: timeout must be more than 0 seconds, not {timeout}")
        if not max_timeout > 0:
            raise ValueError(f"tool {self.name}: max_timeout must be more than 0 seconds, not {max_timeout}")
        self.policy = policy
        self.timeout = timeout
        self.max_timeout = max_timeout
        self.idempotent = idempotent
        self.editable = editable
        self.command = command
        self.claims: tuple[str, ...] = ()
        """Names of the arguments that are the caller's own words about the call; see `foreign_tool`."""
        if isinstance(secret, str):
            raise TypeError(f"tool {self.name}: secret must be a list of parameter names: write [{secret!r}]")
        self.secret = tuple(secret)
        if isinstance(paths, str):
            raise TypeError(f"tool {self.name}: paths must be a list of parameter names: write [{paths!r}]")
        self.edits = (edits,) if isinstance(edits, str) else tuple(edits)
        self.paths = tuple(dict.fromkeys((*paths, *(() if path is None else (path,)), *self.edits)))
        self.limit = checked_limit(limit, f"tool {self.name}")
        self.queue = None if queue is None else checked_name(queue, f"tool {self.name}: its queue")
        self.on_change: OnChange = on_change
        self._take_parameters()
        if preview is not None or on_change != "deny":
            self._take_preview(preview)

    def _take_preview(self, preview: Callable[..., Any] | None) -> None:
        """Note the function that says beforehand what a call would do, and which arguments it takes."""
        if preview is None or self.on_change not in get_args(OnChange):
            raise ValueError(f"tool {self.name}: on_change is 'deny' or 'run', for a tool with a preview")
        if not (inspect.isfunction(preview) or inspect.ismethod(preview)):
            raise TypeError(f"tool {self.name}: its preview {preview!r} must be a function")
        self.preview = preview
        self._previews_context = accepts_context(preview, PreviewContext)
        found = list(signature_of(preview).parameters.values())[int(self._previews_context) :]
        takes_all = any(each.kind is each.VAR_KEYWORD for each in found)
        self._previewed = None if takes_all else frozenset(each.name for each in found)
        self._check_previewed(found)

    def _check_previewed(self, found: Sequence[inspect.Parameter]) -> None:
        """Raise ValueError if the preview needs what no argument of the tool is."""
        for each in found:
            if each.default is each.empty and each.kind not in _VARIADIC and each.name not in self._defaults:
                raise ValueError(f"tool {self.name} has no parameter {each.name!r}, which its preview needs")

    def spread_for_preview(
        self, context: PreviewContext, arguments: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """Return arguments by name as its preview is called with them."""
        args, kwargs = self.spread(arguments)
        given = {name: each for name, each in kwargs.items() if self._previewed is None or name in self._previewed}
        return ((context, *args) if self._previews_context else args), given

    def _take_parameters(self) -> None:
        """Read the signature of the function, and check the names of arguments against it."""
        first = next(iter(signature_of(self.fn).parameters.values()), None)
        self._take_context(first)
        self._arguments = self._parameters(skip=int(self.takes_context))
        if late := [p.name for p in self._arguments if self._context_of(p)]:
            raise TypeError(f"tool {self.name}: {late[0]} is its ToolContext, and must be its first parameter")
        self._signature = inspect.Signature(self._arguments)
        self._positional = [p.name for p in self._arguments if p.kind is p.POSITIONAL_OR_KEYWORD]
        self._required = {p.name for p in self._arguments if p.default is p.empty}
        self._defaults = {p.name: p.default for p in self._arguments}
        if unknown := [name for name in self.secret if name not in self._defaults]:
            raise ValueError(f"tool {self.name} has no parameter {unknown[0]!r} to keep secret")
        if unknown := [name for name in self.paths if name not in self._defaults]:
            raise ValueError(f"tool {self.name} has no parameter {unknown[0]!r} that could be a path")
        if self.command is not None and self.command not in self._defaults:
            raise ValueError(f"tool {self.name} has no parameter {self.command!r} that could be its command")

    def __repr__(self) -> str:
        return f"<tool {self.name} of {self.__module__}>"

    def _take_context(self, first: inspect.Parameter | None) -> None:
        """Note whether the function's first parameter is a context, and which."""
        context = self._context_of(first) if first is not None else None
        if context == "ProcessToolContext" and self.is_plain:
            raise TypeError(f"tool {self.name} takes a ProcessToolContext, whose `started` is awaited: make it async")
        self.takes_context = context is not None
        self.starts_process = context == "ProcessToolContext"

    def _context_of(self, parameter: inspect.Parameter) -> str | None:
        """Return the name of the context that a parameter is annotated with; None for an argument."""
        try:
            hint = hint_of(self.fn, parameter.name)
        except InvalidInput:  # imported for type checkers only, or defined further down
            return next((name for name in CONTEXTS if is_named(parameter.annotation, name)), None)
        return next((name for name, type_ in CONTEXTS.items() if hint is type_), None)

    @cached_property
    def value_type(self) -> Any:
        """The type of the value of its ok results."""
        return _value_in(self.return_type)

    @property
    def parameter_names(self) -> Collection[str]:
        """The names of the arguments that its function takes."""
        return self._defaults.keys()

    @property
    def keeps_deadline(self) -> bool:
        """Whether the tool itself enforces the deadline in its argument `timeout`."""
        return self.timeout is None and any(p.name == "timeout" for p in self._arguments)

    def deadline_in(self, arguments: Mapping[str, Any]) -> float | None:
        """Return the deadline that arguments choose for the call itself, and not for a job in the background; None:
        they choose none."""
        asked = arguments.get("timeout") if self.keeps_deadline and arguments.get("background") is not True else None
        return asked if isinstance(asked, int | float) else None

    def bind(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments as passed, and with defaults filled in, by name; raises TypeError as a call would."""
        passed = {**dict(zip(self._positional, args, strict=False)), **kwargs}
        if (
            len(args) > len(self._positional)
            or len(passed) < len(args) + len(kwargs)
            or not (self._required <= passed.keys() <= self._defaults.keys())
        ):
            self._signature.bind(*args, **kwargs)  # raises the exact error; too slow for every call
        return passed, {
            name: passed.get(name, default)
            for name, default in self._defaults.items()
            if name in passed or name not in self.added
        }

    def spread(self, arguments: Mapping[str, Any]) -> tuple[tuple[Any, ...], Mapping[str, Any]]:
        """Return arguments by name as a call passes them: those by position, and those by keyword."""
        return (), arguments

    @property
    def offered(self) -> Sequence[inspect.Parameter]:
        """A secret with a default is for the program only: no model sees it, or may give another value."""
        return [p for p in self._arguments if p.name not in self.secret or p.default is p.empty]

    @cached_property
    def _struct(self) -> type[msgspec.Struct]:
        return self._struct_of(self._arguments)

    def read_offered(self, raw: msgspec.Raw | bytes) -> None:
        self._decode(raw, self.offered_struct, self.offered)
        if not self.secret:  # an error might quote them
            refuse_unknown(raw, self.offered_struct, self.arguments_text)

    def decode_arguments(self, raw: msgspec.Raw | bytes) -> dict[str, Any]:
        """Return typed arguments by name; raises InvalidInput naming what does not fit."""
        return msgspec.structs.asdict(self._decode(raw, self._struct, self._arguments))

    def read_edited(self, raw: msgspec.Raw | bytes) -> dict[str, Any]:
        """Return arguments that a person wrote, as `decode_arguments` does; refuse unknown names."""
        arguments = self.decode_arguments(raw)
        if not self.secret:
            refuse_unknown(raw, self._struct, self.arguments_text)
        return arguments

    def _decode(self, raw: msgspec.Raw | bytes, type_: Any, parameters: Sequence[inspect.Parameter]) -> Any:
        """Decode arguments; an error about arguments quotes no secret."""
        try:
            return from_json(raw, type_, self.arguments_text)
        except InvalidInput:
            if not self.secret:
                raise
        from_json(raw, self._struct_of(parameters, untyped=self.secret), self.arguments_text)
        raise InvalidInput(f"{self.arguments_text} do not fit: {' or '.join(self.secret)}, which may not be shown")

    def defaults_in(self, raw: msgspec.Raw | bytes) -> tuple[str, ...]:
        """Return the names of the arguments that have the default value of their parameter. Secrets are left out: a
        mask tells nothing of its value."""
        if not self._default_values:
            return ()
        given = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        return tuple(n for n, default in self._default_values.items() if n in given and bytes(given[n]) == default)

    def default_values_beyond(self, raw: msgspec.Raw | bytes) -> msgspec.Raw:
        """Return the default values of the arguments that have another value, by name; null if there are none. A secret
        has none here."""
        if len(self._default_values) == len(held := self.defaults_in(raw)):
            return JSON_NULL
        others = {n: msgspec.Raw(v) for n, v in self._default_values.items() if n not in held and n not in self.added}
        found = msgspec.json.encode(others)
        return msgspec.Raw(found) if len(found) <= MOST_PARAMETERS_BYTES else JSON_NULL

    @cached_property
    def _default_values(self) -> dict[str, bytes]:
        """The default values that JSON can hold, as they are journaled."""
        found: dict[str, bytes] = {}
        for name, default in self._defaults.items():
            if default is not inspect.Parameter.empty and name not in self.secret:
                with suppress(InvalidInput):
                    found[name] = bytes(to_json(default, f"the default of {name}"))
        return found

    @property
    def edit_schema(self) -> msgspec.Raw:
        """The JSON schema of edited arguments, for processes that do not have the tool; null: none is kept."""
        return JSON_NULL

    @cached_property
    def parameters_for_people(self) -> msgspec.Raw:
        """The JSON schema of the arguments of which their values do not say enough: the others are texts and bools. It
        is null if it is too long to be journaled with each request, or if a type has no schema."""
        return self._parameters_told()

    def _parameters_told(self, *, is_former: bool = False) -> msgspec.Raw:
        try:
            (schema,), parts = msgspec.json.schema_components([self._struct], ref_template="#/$defs/{name}")
        except (TypeError, NameError, InvalidInput):  # a type that JSON schema cannot describe
            return JSON_NULL
        properties = parts.pop(schema["$ref"].rpartition("/")[2])["properties"]
        for name in () if is_former else properties:  # msgspec says only that they are texts
            if (form := _FORMATS.get(hint_of(self.fn, name))) is not None:
                properties[name] = {**properties[name], "format": form}
        told = {name: each for name, each in properties.items() if each not in _PLAIN}
        found = to_json({"properties": told, **({"$defs": parts} if parts else {})}, "the schema of arguments")
        has_any = told if is_former else properties
        return found if has_any and len(bytes(found)) <= MOST_PARAMETERS_BYTES else JSON_NULL

    @cached_property
    def former_parameters(self) -> msgspec.Raw:
        """The same as former versions journaled it."""
        return self._parameters_told(is_former=True)

    def policy_of(self, arguments: Mapping[str, Any]) -> Policy:
        """Return the tool's own policy for a call. A callable that raises, or returns anything else, asks (A5)."""
        if not callable(self.policy):
            return self.policy
        args, kwargs = self.spread(arguments)
        try:
            said = self.policy(*args, **kwargs)
        except Exception:  # noqa: BLE001 # the user's callable may raise anything; fail closed
            return "ask"
        return said if isinstance(said, str) and said in _POLICIES else "ask"


def _value_in(type_: Any) -> Any:
    """Return the type of the value in a function's return annotation: that of a ToolResult, if it names one."""
    if type_ is ToolResult:
        return Any
    origin, parts = get_origin(type_), get_args(type_)
    if origin is ToolResult:
        return parts[0]
    if origin not in (Annotated, Union, UnionType) or (values := [_value_in(part) for part in parts]) == [*parts]:
        return type_
    return values[0] if origin is Annotated else reduce(or_, values)


class ToolDecorator(Protocol):
    """The overloads: with or without a context first, returning a ToolResult or the value of an ok one. The last two
    are for functions without async."""

    @overload
    def __call__(
        self, fn: Callable[Concatenate[ProcessToolContext, P], Awaitable[ToolResult[R]]], /
    ) -> ToolSpec[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[ProcessToolContext, P], Awaitable[R]], /) -> ToolSpec[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[ToolResult[R]]], /) -> ToolSpec[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]], /) -> ToolSpec[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, ToolResult[R]], /) -> ToolSpec[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> ToolSpec[P, R]: ...


class RuledToolDecorator(Protocol[P]):
    """As ToolDecorator, for a tool whose policy is a callable that takes the same arguments."""

    @overload
    def __call__(
        self, fn: Callable[Concatenate[ProcessToolContext, P], Awaitable[ToolResult[R]]], /
    ) -> ToolSpec[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[ProcessToolContext, P], Awaitable[R]], /) -> ToolSpec[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[ToolResult[R]]], /) -> ToolSpec[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]], /) -> ToolSpec[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, ToolResult[R]], /) -> ToolSpec[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> ToolSpec[P, R]: ...


@overload
def tool(fn: Callable[Concatenate[ProcessToolContext, P], Awaitable[ToolResult[R]]], /) -> ToolSpec[P, R]: ...
@overload
def tool(fn: Callable[Concatenate[ProcessToolContext, P], Awaitable[R]], /) -> ToolSpec[P, R]: ...
@overload
def tool(fn: Callable[P, Awaitable[ToolResult[R]]], /) -> ToolSpec[P, R]: ...
@overload
def tool(fn: Callable[P, Awaitable[R]], /) -> ToolSpec[P, R]: ...
@overload
def tool(fn: Callable[P, ToolResult[R]], /) -> ToolSpec[P, R]: ...
@overload
def tool(fn: Callable[P, R], /) -> ToolSpec[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    policy: Policy = "ask",
    timeout: float | None = 30.0,
    max_timeout: float = MOST_SECONDS,
    idempotent: bool = False,
    editable: bool = True,
    command: str | None = None,
    secret: Sequence[str] = (),
    path: str | None = None,
    paths: Sequence[str] = (),
    edits: str | Sequence[str] = (),
    limit: str | None = None,
    queue: str | None = None,
    preview: Callable[..., Any] | None = None,
    on_change: OnChange = "deny",
) -> ToolDecorator: ...
@overload
def tool(
    *,
    name: str | None = None,
    policy: Callable[P, Policy],
    timeout: float | None = 30.0,
    max_timeout: float = MOST_SECONDS,
    idempotent: bool = False,
    editable: bool = True,
    command: str | None = None,
    secret: Sequence[str] = (),
    path: str | None = None,
    paths: Sequence[str] = (),
    edits: str | Sequence[str] = (),
    limit: str | None = None,
    queue: str | None = None,
    preview: Callable[..., Any] | None = None,
    on_change: OnChange = "deny",
) -> RuledToolDecorator[P]: ...
def tool(fn: Any = None, /, **options: Any) -> Any:
    """Declare a function tool, whose arguments JSON can express. A function without async runs in a thread.

    `policy`: what happens to a call to which no rule applies: "ask" (the default) asks a person, "allow" runs it,
    "deny" denies it; a callable gets the arguments and returns one of these. `timeout`: the call's deadline in seconds
    (T3); None only for a tool that enforces a deadline of its own, that in its argument `timeout` if it has one.
    `max_timeout`: the longest such deadline that a model may choose; code may choose any.
    `idempotent`: a call lost in a crash may run again. `editable`: whether a person may approve a call with other
    arguments than it was asked with. `command`: the name of the argument that is a shell command, a
    text or a list of words: rules on the tool take patterns of commands.
    `path`, `paths`: the name of the argument that is a path, or the names of all that are: rules on the tool take a
    file or a folder (`/srv/app/**`), and a deny of a path matches each spelling of it, and links that lead there.
    `edits`: the name of the argument that is a file which the call edits, or the names of all. They are paths, and
    rules on the tool take `edits inside /srv/app`. Not for a tool that may delete or move a file.
    `limit`: the name of a Limit: a call waits for a place of it before it runs, and holds it to its result (L1).
    `queue`: on Temporal, calls run on the workers of this queue alone (`supervisor worker --queue NAME`), such as those
    that have a GPU. On one machine it changes nothing.
    `preview`: a function that says what a call would do, for the person who decides it: async or not, with a
    PreviewContext first if it wants one, and those arguments of the tool that it names. It only reads, within 5 s, and
    returns a text or a Preview. `on_change`: what happens if it has read something else just before the call runs:
    "deny" (the default) denies the call, "run" runs it all the same (A18).
    `secret`: names of parameters whose values only the tool gets; people, logs and other programs see a mask, and
    errors do not quote them. A secret with a default is for the program only: models are not offered it.
    A tool that starts processes declares this by the type of its first parameter: ProcessToolContext
    (supervisor.tools).
    The function returns a value, or a ToolResult to say more; it raises ToolFailed to fail with output.
    """
    return ToolSpec(fn) if fn is not None else lambda fn: ToolSpec(fn, **options)
