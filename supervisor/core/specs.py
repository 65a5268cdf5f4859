"""Declarations: what an agent and a tool are, before any of them runs.

A declaration wraps a function and says what the supervisor must know about it: budgets and limits of an agent, the
approval rule and the deadline of a tool. It also knows the function's types, so that inputs, arguments and results
are converted at one border by msgspec: everything that crosses it is JSON on disk and the annotated type in Python.

Rules
- An agent takes its context and at most one input (more fields: a dataclass, TypedDict or Struct).
- A tool's arguments are encodable; its first parameter may be a ToolContext, which is no argument.
- Both are async functions at the top of a module: a resumed run imports them again (design.md "Resuming").
"""

import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cache, cached_property, partial
from types import SimpleNamespace
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    Literal,
    ParamSpec,
    Protocol,
    TypeVar,
    get_type_hints,
    overload,
)

import msgspec

from supervisor.core.errors import InvalidInput
from supervisor.core.toolcontext import ToolContext as ToolContext
from supervisor.core.values import ToolResult

if TYPE_CHECKING:
    from supervisor.core.rules import Rule

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
R_co = TypeVar("R_co", covariant=True)
JSON_NULL: Final = msgspec.Raw(b"null")


def printable(text: str) -> str:
    """Return text that UTF-8 can hold: what it cannot (lone surrogates) is shown escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def to_json(value: Any, what: str, *, canonical: bool = False) -> msgspec.Raw:
    """Encode a value for the journal; raises InvalidInput naming `what` if it cannot be.

    `canonical`: equal values give equal bytes, in every process (a set has another order in each).
    """
    try:
        return msgspec.Raw(msgspec.json.encode(value, order="deterministic" if canonical else None))
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(f"{what} cannot be written to the journal: {error}; use values that JSON can hold") from None


def from_json(raw: msgspec.Raw | bytes, type_: Any, what: str) -> Any:
    """Decode a value from the journal as `type_`; raises InvalidInput naming `what` if it does not fit."""
    try:
        return msgspec.json.decode(raw, type=type_)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"{what} does not fit: {error}") from None
    except TypeError as error:
        raise InvalidInput(f"{what} has a type that JSON cannot hold: {error}") from None


@cache
def hint_of(fn: Callable[..., Any], name: str) -> Any:
    """Resolve one annotation of a function, Any where it has none; raises InvalidInput if it cannot be resolved.

    One at a time, so that another annotation, which exists for type checkers only, does no harm.
    """
    annotation = getattr(fn, "__annotations__", {}).get(name, Any)
    stub = SimpleNamespace(__annotations__={name: annotation})
    try:
        return get_type_hints(stub, globalns=getattr(fn, "__globals__", {}), include_extras=True)[name]
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise InvalidInput(f"the annotation of {name} in {fn.__qualname__} cannot be resolved: {error}") from None


def _given(value: T) -> T:
    return value


class _Function:
    """What both kinds of declaration know of their function's signature."""

    def __init__(self, fn: Callable[..., Any], name: str | None, kind: str) -> None:
        if not inspect.iscoroutinefunction(fn):
            raise TypeError(
                f"{kind} {fn!r} must be an async function; wrap blocking code with anyio.to_thread.run_sync"
            )
        self.fn = fn
        self.name = name or fn.__name__
        self.__doc__ = fn.__doc__
        self.__name__ = fn.__name__
        self.__module__ = fn.__module__
        self.__qualname__ = fn.__qualname__

    def _parameters(self, skip: int) -> list[inspect.Parameter]:
        parameters = list(inspect.signature(self.fn).parameters.values())[skip:]
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise TypeError(f"{self.name}: parameter {parameter} has no name in JSON; use a plain parameter")
        return parameters

    @cached_property
    def return_type(self) -> Any:
        return hint_of(self.fn, "return")


class AgentSpec(_Function, Generic[P, R_co]):
    """An agent: its function, its name, its budgets (seconds) and its limits. Made by `agent`."""

    def __init__(
        self,
        fn: Callable[..., Awaitable[R_co]],
        *,
        name: str | None = None,
        inactivity_timeout: float = 60.0,
        first_progress_timeout: float = 1800.0,
        active_timeout: float | None = None,
        stop_timeout: float = 30.0,
        call_timeout: float | None = None,
        rules: Sequence["Rule"] = (),
        jobs: Literal["end", "keep"] = "end",
        max_children: int = 10_000,
        max_live_children: int = 10_000,
        max_depth: int = 16,
    ) -> None:
        super().__init__(fn, name, "agent")
        for key, seconds in (
            ("inactivity_timeout", inactivity_timeout),
            ("first_progress_timeout", first_progress_timeout),
            ("active_timeout", active_timeout),
            ("stop_timeout", stop_timeout),
            ("call_timeout", call_timeout),
        ):
            if seconds is not None and not seconds > 0:
                raise ValueError(f"agent {self.name}: {key} must be more than 0 seconds, not {seconds}")
        self.inactivity_timeout = inactivity_timeout
        self.first_progress_timeout = first_progress_timeout
        self.active_timeout = active_timeout
        self.stop_timeout = stop_timeout
        self.call_timeout = call_timeout
        self.rules = tuple(rules)
        if jobs not in ("end", "keep"):
            raise ValueError(f"agent {self.name}: jobs is 'end' or 'keep', not {jobs!r}")
        self.jobs = jobs
        self.max_children = max_children
        self.max_live_children = max_live_children
        self.max_depth = max_depth
        if not inspect.signature(fn).parameters:
            raise TypeError(f"agent {self.name} takes no context: its first parameter is the Context")
        parameters = self._parameters(skip=1)
        if parameters and parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
            raise TypeError(f"agent {self.name}: its input is passed by position; leave out the '*'")
        if len(parameters) > 1:
            raise TypeError(
                f"agent {self.name} takes {len(parameters)} inputs; an agent takes its context and at most one: "
                "put the fields into a dataclass, TypedDict or Struct"
            )
        self._input = parameters[0] if parameters else None
        self._signature = inspect.signature(fn)

    def __repr__(self) -> str:
        return f"<agent {self.name} of {self.__module__}>"

    @property
    def takes_input(self) -> bool:
        """Whether a start gives it an input."""
        return self._input is not None

    def encode_input(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> msgspec.Raw:
        """Encode the one input; raises TypeError for a wrong number, InvalidInput for a value that does not fit."""
        bound = self._signature.bind(None, *args, **kwargs)
        bound.apply_defaults()
        if self._input is None:
            return JSON_NULL
        raw = to_json(bound.arguments[self._input.name], f"the input of agent {self.name}", canonical=True)
        self.decode_input(raw)
        return raw

    def decode_input(self, raw: msgspec.Raw | bytes) -> tuple[Any, ...]:
        """Return the arguments that follow the context: none or one; raises InvalidInput if the JSON does not fit."""
        if self._input is None:
            if bytes(raw) != bytes(JSON_NULL):
                raise InvalidInput(f"agent {self.name} takes no input")
            return ()
        return (from_json(raw, hint_of(self.fn, self._input.name), f"the input of agent {self.name}"),)

    @cached_property
    def takes_text(self) -> bool:
        """Whether a message can be its input."""
        if self._input is None:
            return False
        try:
            from_json(b'"text"', hint_of(self.fn, self._input.name), "a message")
        except InvalidInput:
            return False
        return True

    def default_input(self) -> msgspec.Raw:
        """Encode the input of a start that gives none; raises InvalidInput if the agent needs one."""
        if self._input is not None and self._input.default is inspect.Parameter.empty:
            raise InvalidInput(f"agent {self.name} needs an input: {self._input}")
        return self.encode_input((), {})


class ToolSpec(_Function, Generic[P, R_co]):
    """A function tool: its approval rule, its deadline, and whether it may run twice. Made by `tool`."""

    def __init__(
        self,
        fn: Callable[..., Awaitable[Any]],
        *,
        name: str | None = None,
        approval: Literal["ask", "never"] | Callable[..., bool] = "ask",
        timeout: float | None = 30.0,
        idempotent: bool = False,
        starts_process: bool = False,
    ) -> None:
        super().__init__(fn, name, "tool")
        if not callable(approval) and approval not in ("ask", "never"):
            raise ValueError(f"tool {self.name}: approval is 'ask', 'never' or a callable, not {approval!r}")
        if timeout is not None and not timeout > 0:
            raise ValueError(f"tool {self.name}: timeout must be more than 0 seconds, not {timeout}")
        self.approval = approval
        self.timeout = timeout
        self.idempotent = idempotent
        self.starts_process = starts_process
        first = next(iter(inspect.signature(fn).parameters.values()), None)
        self.takes_context = first is not None and self._is_context(first)
        self._arguments = self._parameters(skip=int(self.takes_context))
        self._signature = inspect.Signature(self._arguments)

    def __repr__(self) -> str:
        return f"<tool {self.name} of {self.__module__}>"

    def _is_context(self, parameter: inspect.Parameter) -> bool:
        try:
            return hint_of(self.fn, parameter.name) is ToolContext
        except InvalidInput:  # imported for type checkers only, or defined further down
            return bool(parameter.annotation == "ToolContext")

    @property
    def keeps_deadline(self) -> bool:
        """Whether the tool keeps the deadline itself that its argument `timeout` says."""
        return self.timeout is None and any(p.name == "timeout" for p in self._arguments)

    def bind(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the arguments as passed and with defaults filled in, by name; raises TypeError as a call would."""
        bound = self._signature.bind(*args, **kwargs)
        passed = dict(bound.arguments)
        bound.apply_defaults()
        return passed, dict(bound.arguments)

    @cached_property
    def _struct(self) -> type[msgspec.Struct]:
        fields = [
            (
                p.name,
                hint_of(self.fn, p.name),
                *(() if p.default is p.empty else (msgspec.field(default_factory=partial(_given, p.default)),)),
            )
            for p in self._arguments
        ]
        return msgspec.defstruct(f"{self.name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)

    def decode_arguments(self, raw: msgspec.Raw | bytes) -> dict[str, Any]:
        """Return typed arguments by name; raises InvalidInput naming what does not fit."""
        arguments = from_json(raw, self._struct, f"the arguments of tool {self.name}")
        return {name: getattr(arguments, name) for name in self._struct.__struct_fields__}

    def needs_approval(self, arguments: Mapping[str, Any]) -> bool:
        """Whether a person must decide this call; a rule that raises has proved nothing, so it asks (A5)."""
        if not callable(self.approval):
            return self.approval == "ask"
        try:
            return bool(self.approval(**arguments))
        except Exception:  # noqa: BLE001 # the user's rule may raise anything; fail closed
            return True


class AgentDecorator(Protocol):
    def __call__(self, fn: Callable[Concatenate[Any, P], Awaitable[R]], /) -> AgentSpec[P, R]: ...


@overload
def agent(fn: Callable[Concatenate[Any, P], Awaitable[R]], /) -> AgentSpec[P, R]: ...
@overload
def agent(
    *,
    name: str | None = None,
    inactivity_timeout: float = 60.0,
    first_progress_timeout: float = 1800.0,
    active_timeout: float | None = None,
    stop_timeout: float = 30.0,
    call_timeout: float | None = None,
    rules: Sequence["Rule"] = (),
    jobs: Literal["end", "keep"] = "end",
    max_children: int = 10_000,
    max_live_children: int = 10_000,
    max_depth: int = 16,
) -> AgentDecorator: ...
def agent(fn: Any = None, /, **options: Any) -> Any:
    """Declare an agent: an async function of a Context and at most one input.

    `inactivity_timeout`: seconds between two signs of progress before the watchdog ends the run (W5).
    `first_progress_timeout`: seconds that a model call may take to its first heartbeat.
    `active_timeout`: seconds of active time in all, waits for people not counted; None: no bound.
    `stop_timeout`: seconds that a run may take to end once it is told to, before it is abandoned (W13).
    `call_timeout`: the deadline in seconds of calls that say nothing of their own; a call's own goes before it, and it
    before the tool's. A tool that keeps its deadline itself (`timeout=None`) gets it as its argument `timeout`.
    `jobs`: what becomes of background jobs that its calls began: "end" with the root session, or "keep" (T6).
    `rules`: standing decisions on its calls and those of its sub-agents; a sub-agent's own can deny and ask, and never
    allow more than its parents' (A7, A14).
    `max_children`, `max_live_children`: sub-agents of one run in all, and at the same time.
    `max_depth`: how many levels of sub-agents there may be below a root.
    """
    return AgentSpec(fn) if fn is not None else lambda fn: AgentSpec(fn, **options)


class ToolDecorator(Protocol):
    """The overloads read: with or without a ToolContext first, returning a ToolResult or the value of an ok one."""

    @overload
    def __call__(self, fn: Callable[Concatenate[ToolContext, P], Awaitable[ToolResult[R]]], /) -> ToolSpec[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[ToolContext, P], Awaitable[R]], /) -> ToolSpec[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[ToolResult[R]]], /) -> ToolSpec[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]], /) -> ToolSpec[P, R]: ...


class RuledToolDecorator(Protocol[P]):
    """As ToolDecorator, for a tool whose approval rule takes the same arguments."""

    @overload
    def __call__(self, fn: Callable[Concatenate[ToolContext, P], Awaitable[ToolResult[R]]], /) -> ToolSpec[P, R]: ...
    @overload
    def __call__(self, fn: Callable[Concatenate[ToolContext, P], Awaitable[R]], /) -> ToolSpec[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[ToolResult[R]]], /) -> ToolSpec[P, R]: ...
    @overload
    def __call__(self, fn: Callable[P, Awaitable[R]], /) -> ToolSpec[P, R]: ...


@overload
def tool(fn: Callable[Concatenate[ToolContext, P], Awaitable[ToolResult[R]]], /) -> ToolSpec[P, R]: ...
@overload
def tool(fn: Callable[Concatenate[ToolContext, P], Awaitable[R]], /) -> ToolSpec[P, R]: ...
@overload
def tool(fn: Callable[P, Awaitable[ToolResult[R]]], /) -> ToolSpec[P, R]: ...
@overload
def tool(fn: Callable[P, Awaitable[R]], /) -> ToolSpec[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    approval: Literal["ask", "never"] = "ask",
    timeout: float | None = 30.0,
    idempotent: bool = False,
    starts_process: bool = False,
) -> ToolDecorator: ...
@overload
def tool(
    *,
    name: str | None = None,
    approval: Callable[P, bool],
    timeout: float | None = 30.0,
    idempotent: bool = False,
    starts_process: bool = False,
) -> RuledToolDecorator[P]: ...
def tool(fn: Any = None, /, **options: Any) -> Any:
    """Declare a function tool: an async function whose arguments JSON can hold.

    `approval`: "ask" (the default) asks a person for every call, "never" for none; a callable gets the arguments and
    says whether to ask. `timeout`: the call's deadline in seconds (T3); None only for a tool that keeps a deadline of
    its own. `idempotent`: a call lost in a crash may run again. `starts_process`: the tool runs a process and tells its
    ToolContext its pid before the process begins (T9).
    The function returns a value, or a ToolResult to say more; it raises ToolFailed to fail with output.
    """
    return ToolSpec(fn) if fn is not None else lambda fn: ToolSpec(fn, **options)
