"""References to the functions of tools and steps: a workflow names a function, and any worker finds it.

Rules
- A reference is "MODULE:NAME", or "FILE.py:NAME" for a file that the worker was given, without its folder: workers on
  two machines may keep their files in different places.
- A tool or a step that has no place at the top of a module cannot run on another worker, and is refused by name.
- A worker runs only functions of modules that it offers (`Offered`). Otherwise a client that may start activities could
  run any function of any module that is loaded, past all rules and approvals.
"""

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from pathlib import PurePath
from types import ModuleType
from typing import Any, Final

from supervisor.core.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput, UnknownAgent
from supervisor.core.events import SessionCreated
from supervisor.core.tool_spec import ToolSpec
from supervisor.loading import find_declared
from supervisor.temporal.wire import NO_AGENT

_FILE: Final = re.compile(r"supervisor_agents_[0-9a-f]{12}_(.+)")
"""The name of a module that was loaded by its path (supervisor/loading.py)."""


@cache
def refer(fn: Callable[..., Any]) -> str:
    """Return the reference of the function of a tool or a step. Raises InvalidInput if it has none."""
    name = getattr(fn, "__qualname__", "")
    for module in _modules_for(fn):
        if _find(module, name) is not None and _function(_find(module, name)) is fn:
            return f"{_named(module)}:{name}"
        for attribute, value in list(vars(module).items()):
            if _function(value) is fn:
                return f"{_named(module)}:{attribute}"
    shown = f"{getattr(fn, '__module__', '?')}.{name or repr(fn)}"
    raise InvalidInput(
        f"{shown} cannot run on Temporal: a tool or a step there is a function at the top of a module, since any "
        "worker must find it by its name"
    )


def resolve(reference: str) -> ToolSpec[..., Any] | Callable[..., Any]:
    """Return the tool, or the function of a step, that a reference names. Raises UnknownAgent."""
    where, _, name = reference.rpartition(":")
    module = next((each for each in _loaded() if _named(each) == where), None)
    found = _find(module, name) if module is not None else None
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
        where = getattr(_function(found), "__module__", None)
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


def find_agent(created: SessionCreated) -> AgentSpec[Any, Any]:
    """Return the agent of a session that another worker has begun. Raises UnknownAgent."""
    found = find_referred(created.agent, created.path[-1])
    if found is None:
        raise UnknownAgent(f"{NO_AGENT} {created.agent}")
    return found


def find_referred(reference: str, name: str) -> AgentSpec[Any, Any] | None:
    """Return the agent where a session says that it is, or None. This imports nothing."""
    found = find_declared(reference, name)
    where, _, attribute = reference.rpartition(":")
    if found is None and where.endswith(".py"):
        here = (_find(module, attribute) for module in _loaded() if _named(module) == PurePath(where).name)
        found = next((each for each in here if isinstance(each, AgentSpec)), None)
    return found


def _function(value: Any) -> Any:
    return value.fn if isinstance(value, ToolSpec) else value


def _find(module: ModuleType | None, name: str) -> Any:
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _named(module: ModuleType) -> str:
    by_file = _FILE.fullmatch(module.__name__)
    return f"{by_file[1]}.py" if by_file else module.__name__


def _modules_for(fn: Callable[..., Any]) -> Iterator[ModuleType]:
    """Yield the module of a function, and the files that the worker was given, which may have made the tool."""
    own = sys.modules.get(getattr(fn, "__module__", ""))
    if own is not None:
        yield own
    yield from (module for module in _loaded() if _FILE.fullmatch(module.__name__) and module is not own)


def _loaded() -> list[ModuleType]:
    return [module for module in sys.modules.values() if isinstance(module, ModuleType)]
