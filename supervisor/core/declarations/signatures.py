"""What every declaration knows of its function: its name, and the types into which JSON is converted.

Functions of agents and steps are at the top of a module: a resumed run imports them again. Functions of tools may be
made while a run goes on, thousands of them, so nothing here keeps a function alive.
"""

import dis
import inspect
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from functools import cache, cached_property, lru_cache, partial
from types import CodeType, FunctionType, SimpleNamespace
from typing import Any, TypeVar, get_type_hints

import msgspec

from supervisor.core.declarations.schemas import refuse_unknown
from supervisor.core.encoding import from_json
from supervisor.core.errors import InvalidInput

T = TypeVar("T")

if sys.version_info >= (3, 14):
    # Annotations are evaluated when they are asked for, all at once: one that cannot be is a ForwardRef here.
    from annotationlib import Format, get_annotations

    def _signature_of(fn: Callable[..., Any]) -> inspect.Signature:
        return inspect.signature(fn, annotation_format=Format.FORWARDREF)

    def _annotations_of(fn: Callable[..., Any]) -> dict[str, Any]:
        return get_annotations(fn, format=Format.FORWARDREF)
else:

    def _signature_of(fn: Callable[..., Any]) -> inspect.Signature:
        return inspect.signature(fn)

    def _annotations_of(fn: Callable[..., Any]) -> dict[str, Any]:
        return getattr(fn, "__annotations__", {})


_signature_at_top = cache(_signature_of)


def signature_of(fn: Callable[..., Any]) -> inspect.Signature:
    """Return a function's signature, whether its annotations can be resolved or not. A closure, and the object of a
    method, are not kept in memory."""
    return _signature_at_top(fn) if isinstance(fn, FunctionType) and "<" not in fn.__qualname__ else _signature_of(fn)


def is_named(annotation: Any, name: str) -> bool:
    """Return whether an annotation that could not be resolved is this name."""
    return bool(getattr(annotation, "__forward_arg__", annotation) == name)


def hint_of(fn: Callable[..., Any], name: str) -> Any:
    """Resolve one annotation of a function, Any where it has none; raises InvalidInput if it cannot be resolved.

    One annotation at a time, so that another one, which exists for type checkers only, does no harm. A closure, and the
    object of a method, are not kept in memory.
    """
    fn = getattr(fn, "__func__", fn)
    return _hint_of(fn, name) if "<" in fn.__qualname__ else _hint_at_top(fn, name)


def _hint_of(fn: Callable[..., Any], name: str) -> Any:
    annotation = _annotations_of(fn).get(name, Any)
    stub = SimpleNamespace(__annotations__={name: annotation})
    try:
        # Those of the function itself: a decorator (functools.wraps) knows the names of its own module only.
        names = getattr(inspect.unwrap(fn), "__globals__", {})
        return get_type_hints(stub, globalns=names, include_extras=True)[name]
    except (NameError, AttributeError, TypeError, SyntaxError) as error:
        raise InvalidInput(f"the annotation of {name} in {fn.__qualname__} cannot be resolved: {error}") from None


_hint_at_top = cache(_hint_of)


def is_plain(fn: Callable[..., Any]) -> bool:
    """Return whether neither a function nor the one that it wraps is async. It may still return an awaitable."""
    code = getattr(fn, "__code__", None)
    if code is not None and not fn.__dict__:  # it wraps no other, and nothing marks it
        return not code.co_flags & inspect.CO_COROUTINE
    return not inspect.iscoroutinefunction(inspect.unwrap(fn))


def awaits(fn: Callable[..., Any]) -> bool:
    """Return whether an async function may be suspended: its code awaits something. One that does not cannot be told to
    end, and has ended when the loop goes on."""
    code = getattr(fn, "__code__", None)
    return code is None or not inspect.iscoroutinefunction(fn) or _suspends(code)


@lru_cache(maxsize=1000)
def _suspends(code: CodeType) -> bool:
    return dis.opmap["SEND"] in code.co_code[::2]  # what `await`, `async with` and `async for` are compiled to


def accepts_context(fn: Callable[..., Any], context: type) -> bool:
    """Return whether the first parameter of a function has this annotation: a context, which is no argument."""
    first = next(iter(signature_of(fn).parameters.values()), None)
    if first is None:
        return False
    try:
        return hint_of(fn, first.name) is context
    except InvalidInput:  # imported for type checkers only, or defined further down
        return is_named(first.annotation, context.__name__)


def _given(value: T) -> T:
    return value


class DeclaredFunction(ABC):
    """What both kinds of declaration know of their function's signature."""

    command: str | None = None
    """The name of the argument that is a shell command; rules, patterns and cards read it as one."""

    def __init__(self, fn: Callable[..., Any], name: str | None, kind: str) -> None:
        if not (inspect.isfunction(fn) or inspect.ismethod(fn)):  # a functools.partial has no name
            raise TypeError(f"{kind} {fn!r} must be a function")
        if inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn):
            raise TypeError(f"{kind} {fn!r} yields its results one by one: return them as a whole")
        if kind == "agent" and not inspect.iscoroutinefunction(fn):
            raise TypeError(f"agent {fn!r} must be an async function; only tools and steps may be plain functions")
        self.fn: Any = fn
        self.name = name or fn.__name__
        self.__doc__ = fn.__doc__
        self.__name__ = fn.__name__
        self.__module__ = fn.__module__
        self.__qualname__ = fn.__qualname__

    @property
    @abstractmethod
    def offered(self) -> Sequence[inspect.Parameter]:
        """The parameters that a model is offered when it calls this as a tool."""

    @property
    def offered_names(self) -> list[str]:
        return [parameter.name for parameter in self.offered]

    @cached_property
    def offered_struct(self) -> type[msgspec.Struct]:
        return self._struct_of(self.offered)

    def read_offered(self, raw: msgspec.Raw | bytes) -> None:
        """Raise InvalidInput, naming what does not fit, unless a model may give these arguments."""
        from_json(raw, self.offered_struct, self.arguments_text)
        refuse_unknown(raw, self.offered_struct, self.arguments_text)

    def parameters_schema(self) -> dict[str, Any]:
        """Return the JSON schema of the arguments that a model may give; raises InvalidInput for a type without one."""
        try:
            (schema,), parts = msgspec.json.schema_components([self.offered_struct], ref_template="#/$defs/{name}")
        except (TypeError, NameError) as error:
            raise InvalidInput(f"tool {self.name} has a parameter that JSON schema cannot describe: {error}") from None
        schema = parts.pop(schema["$ref"].rpartition("/")[2])
        del schema["title"]
        return {**schema, "$defs": parts} if parts else schema

    @property
    def arguments_text(self) -> str:
        """The name of the arguments in an error."""
        return f"the arguments of tool {self.name}"

    def _struct_of(
        self, parameters: Sequence[inspect.Parameter], untyped: Collection[str] = ()
    ) -> type[msgspec.Struct]:
        """Return a type with a field for each parameter; `untyped`: parameters that take any value."""
        fields = [
            (
                p.name,
                Any if p.name in untyped else hint_of(self.fn, p.name),
                *(() if p.default is p.empty else (msgspec.field(default_factory=partial(_given, p.default)),)),
            )
            for p in parameters
        ]
        return msgspec.defstruct(f"{self.name}_arguments", fields, kw_only=True, forbid_unknown_fields=True)

    def _parameters(self, skip: int) -> list[inspect.Parameter]:
        parameters = list(signature_of(self.fn).parameters.values())[skip:]
        for parameter in parameters:
            if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
                raise TypeError(f"{self.name}: parameter {parameter} has no name in JSON; use a plain parameter")
        return parameters

    @cached_property
    def return_type(self) -> Any:
        return hint_of(self.fn, "return")
