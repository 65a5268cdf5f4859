"""The functions that a worker runs: it finds one by its reference, and only in the modules that it offers.

Otherwise a client that may start activities could run any function of any module that is loaded, past all rules and
approvals.
"""

import sys
from collections.abc import Callable, Iterable
from types import ModuleType
from typing import Any

from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.declarations.tool_spec import ToolSpec
from supervisor.core.errors import InvalidInput, UnknownAgent
from supervisor.temporal.workflow.references import find_function, function_of


def resolve(reference: str) -> ToolSpec[..., Any] | Callable[..., Any]:
    """Return the tool, or the function of a step, that a reference names. Raises UnknownAgent."""
    found = find_function(reference)
    if found is None:
        raise UnknownAgent(f"this worker has no {reference}: its code is not that of the worker which runs the agent")
    return found  # type: ignore[no-any-return] # checked by the caller, which knows whether it is a tool


class Offered:
    """What a worker may run: the tools and the functions of the modules of its agents, of modules that declare an agent
    or a tool and that these import, or import something from, and of `others`, by their names."""

    def __init__(self, agents: Iterable[AgentSpec[..., Any]], others: Iterable[str] = ()) -> None:
        self._modules: dict[str, ModuleType] = {}
        left = [*others]
        for spec in agents:
            left += _where(spec)
        while left:
            name = left.pop()
            if name in self._modules or (module := sys.modules.get(name)) is None:
                continue
            self._modules[name] = module
            for value in list(vars(module).values()):
                left += _where(value)

    def check(self, reference: str, found: ToolSpec[..., Any] | Callable[..., Any]) -> None:
        """Raise InvalidInput for a tool or a function that is not offered."""
        where = getattr(function_of(found), "__module__", None)
        if where in self._modules:
            return
        held = (each for module in self._modules.values() for each in list(vars(module).values()))
        if isinstance(found, ToolSpec) and any(found is each for each in held):
            return
        raise InvalidInput(
            f"this worker does not run {reference}: no module of its agents declares it. Put it into a module that "
            f"declares an agent or a tool, or name its module when you start the worker (--also {where})"
        )


def _where(value: Any) -> list[str]:
    """Return the modules that a value of an offered module makes offered."""
    if isinstance(value, AgentSpec):
        return [value.__module__, *(tool.fn.__module__ for tool in value.tools.values())]
    if isinstance(value, ToolSpec):
        return [value.fn.__module__]
    if isinstance(value, ModuleType):
        below = [each for each in list(vars(value).values()) if isinstance(each, ModuleType)]
        inside = [each for each in below if each.__name__.startswith(f"{value.__name__}.")]
        return [each.__name__ for each in (value, *inside) if _declares(each)]
    return []


def _declares(module: ModuleType) -> bool:
    """Return whether a module declares an agent or a tool."""
    values = [each for each in list(vars(module).values()) if isinstance(each, AgentSpec | ToolSpec)]
    return any(getattr(each.fn, "__module__", None) == module.__name__ for each in values)
