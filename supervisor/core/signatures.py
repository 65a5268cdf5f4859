"""What every declaration knows of its function: its name, and its types where JSON must become values.

Declared functions are async and at the top of a module: a resumed run imports them again (design.md "Resuming").
"""

import inspect
from collections.abc import Callable
from functools import cache, cached_property
from types import SimpleNamespace
from typing import Any, get_type_hints

from supervisor.core.errors import InvalidInput


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


class DeclaredFunction:
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
