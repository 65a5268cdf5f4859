"""References to agents, and to the functions of tools and steps: a workflow names one, and any worker finds it.

Rules
- A reference is "MODULE:NAME", or "FILE.py:NAME" for a file that the worker was given, without its folder: workers on
  two machines may keep their files in different places.
- A tool or a step that has no place at the top of a module cannot run on another worker, and is refused by name.
"""

import re
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import PurePath
from types import ModuleType
from typing import Any, Final

from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.declarations.tool_spec import ToolSpec
from supervisor.core.errors import InvalidInput, UnknownAgent
from supervisor.core.events import SessionCreated
from supervisor.system.loading import find_declared

NO_AGENT: Final = "this worker has no agent"
"""How the error of an agent that is not found begins."""
_BY_PATH: Final = "supervisor_agents_"
_FILE: Final = re.compile(_BY_PATH + r"[0-9a-f]{12}_(.+)")
"""The name of a module that was loaded by its path (supervisor/system/loading.py)."""


@cache
def refer(fn: Callable[..., Any]) -> str:
    """Return the reference of the function of a tool or a step. Raises InvalidInput if it has none."""
    name = getattr(fn, "__qualname__", "")
    for module in _modules_for(fn):
        if _find(module, name) is not None and function_of(_find(module, name)) is fn:
            return f"{_named(module)}:{name}"
        for attribute, value in list(vars(module).items()):
            if function_of(value) is fn:
                return f"{_named(module)}:{attribute}"
    shown = f"{getattr(fn, '__module__', '?')}.{name or repr(fn)}"
    raise InvalidInput(
        f"{shown} cannot run on Temporal: a tool or a step there is a function at the top of a module, since any "
        "worker must find it by its name"
    )


def find_function(reference: str) -> Any:
    """Return what has the name of a reference in a module that is loaded here, or None."""
    where, _, name = reference.rpartition(":")
    known = sys.modules.get(where)
    found = [known] if isinstance(known, ModuleType) else _files()
    module = next((each for each in found if _named(each) == where), None)
    return _find(module, name) if module is not None else None


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
        here = (_find(module, attribute) for module in _files() if _named(module) == PurePath(where).name)
        found = next((each for each in here if isinstance(each, AgentSpec)), None)
    return found


def function_of(value: Any) -> Any:
    """Return the function of a tool; any other value is one itself."""
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
    yield from (module for module in _files() if module is not own)


def _files() -> list[ModuleType]:
    """Return the modules that were loaded by their paths."""
    loaded = [module for name, module in list(sys.modules.items()) if name.startswith(_BY_PATH)]
    return [module for module in loaded if isinstance(module, ModuleType)]
