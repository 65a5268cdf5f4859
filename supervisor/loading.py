"""Load agents: a session records the module and the file of its agent, and a resumed run imports it again.

Rules
- A reference is "module:name". For `__main__`, and for a file that was loaded by its path, it is
  "/absolute/file.py:name".
- An agent that this process has already loaded under a reference is used again, so that nothing is imported twice.
- An agent of one command (`COMMANDS`) has the reference "command:name". It is in memory where that command runs, and
  no other process can load it: a daemon leaves its sessions alone.
- If an agent cannot be found, UnknownAgent is raised, and its session is left untouched.
"""

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from copy import copy
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from supervisor.core.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput, UnknownAgent
from supervisor.core.ids import digest

COMMANDS: Final[Mapping[str, str]] = {"command:claude-code": "supervisor mcp --permissions --session"}
"""The agents that only one command can run, by reference, with that command. The session's id follows."""
COMMAND_AGENTS: Final = frozenset(reference.rpartition(":")[2] for reference in COMMANDS)
"""Their names."""

_seen: dict[str, AgentSpec[Any, Any]] = {}
_files: dict[str, ModuleType] = {}
_configured: dict[str, AgentSpec[Any, Any]] = {}
_located: dict[AgentSpec[Any, Any], tuple[str, str | None]] = {}


def locate(spec: AgentSpec[Any, Any]) -> tuple[str, str | None]:
    """Return an agent's reference, and the file of its module; None if it has no file."""
    if (known := _located.get(spec)) is not None:
        return known
    module = sys.modules.get(spec.__module__)
    file = getattr(module, "__file__", None)
    path = str(Path(file).resolve()) if file else None
    by_file = spec.__module__ == "__main__" or path in _files
    reference = f"{path if by_file and path else spec.__module__}:{spec.__qualname__}"
    _seen[reference] = spec
    _located[spec] = reference, path
    return reference, path


def declare(spec: AgentSpec[Any, Any], reference: str) -> AgentSpec[Any, Any]:
    """Give the agent of a command its reference, in the process of that command."""
    assert reference in COMMANDS, f"{reference} is no agent of a command"
    assert spec.name in COMMAND_AGENTS, f"{reference} has another name than {spec.name}"
    _located[spec] = reference, None
    _seen[reference] = spec
    return spec


def why_not_here(reference: str) -> str | None:
    """Return why this process can run no session of an agent: only the process of a command can. None: it may."""
    if reference not in COMMANDS or reference in _seen:
        return None
    return f"only the command `{COMMANDS[reference]} ID` runs it, and a program that asks for permissions starts it"


def command_of(agent: str, session: str) -> str | None:
    """Return the command that alone runs a session, by the name of its agent; None for an agent that can be loaded."""
    found = next((command for reference, command in COMMANDS.items() if reference.endswith(f":{agent}")), None)
    return None if found is None else f"{found} {session}"


def load_agent(reference: str, file: str | None = None) -> AgentSpec[Any, Any]:
    """Return the agent of "module:name" or "path/file.py:name". `file`: the file to load if the module cannot be
    imported.

    Raises UnknownAgent, and says what was searched for and what went wrong.
    """
    if (why := why_not_here(reference)) is not None:
        raise UnknownAgent(f"{reference} cannot be loaded: {why}")
    where, _, name = reference.rpartition(":")
    if not where or not name:
        raise UnknownAgent(f"{reference!r} does not name an agent: write FILE.py:NAME or MODULE:NAME")
    is_file = where.endswith(".py") or "/" in where
    key = f"{Path(where).resolve()}:{name}" if is_file else reference
    if (seen := _configured.get(key) or _seen.get(key)) is not None:
        return seen
    module = _load_file(Path(where)) if is_file else _load_module(where, file)
    found = _find_in(module, name)
    if found is None:
        names = sorted(n for n, v in vars(module).items() if isinstance(v, AgentSpec))
        known = f"it has {', '.join(names)}" if names else "it has none; declare one with @agent"
        raise UnknownAgent(f"{where} has no agent {name!r}: {known}")
    _seen[key] = found
    return found


def find_declared(reference: str) -> AgentSpec[Any, Any] | None:
    """Return the agent of a reference if this process has declared it. This imports nothing."""
    where, _, name = reference.rpartition(":")
    if (seen := _configured.get(reference) or _seen.get(reference)) is not None:
        return seen
    found = (_find_in(module, name) for module in _loaded_as(where))
    return next((spec for spec in found if spec is not None), None)


def _find_in(module: ModuleType, name: str) -> AgentSpec[Any, Any] | None:
    """Return the agent with a name in a module; the name may have dots."""
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, AgentSpec) else None


def _loaded_as(where: str) -> list[ModuleType]:
    """Return the loaded modules of a module name, or of a file."""
    if not where.endswith(".py"):
        return [module for module in [sys.modules.get(where)] if module is not None]
    name, modules = Path(where).name, list(sys.modules.values())
    likely = [module for module in modules if str(getattr(module, "__file__", None)).endswith(name)]
    return [module for module in likely if str(Path(str(module.__file__)).resolve()) == where]


def configure(spec: AgentSpec[Any, Any], name: str, changed: Mapping[str, Any]) -> AgentSpec[Any, Any]:
    """Return the agent under another name, with other budgets, limits and rules. Sessions that are resumed in this
    process also get it. Raises InvalidInput for an agent that was configured already, or an invalid budget."""
    reference, _ = locate(spec)
    if reference in _configured:
        raise InvalidInput(f"{reference} is configured twice; one function is one agent")
    for key, value in changed.items():
        if key.endswith("_timeout") and not value > 0:
            raise InvalidInput(f"{key} must be more than 0 seconds, not {value}")
        if key == "passivate_after" and value is not None and not value >= 0:
            raise InvalidInput(f"{key} must be 0 or more seconds, not {value}")
    configured = copy(spec)
    for key, value in {"name": name, **changed}.items():
        setattr(configured, key, value)
    _located[configured] = _located[spec]
    _configured[reference] = configured
    return configured


def load_agents(reference: str) -> dict[str, AgentSpec[Any, Any]]:
    """Return the agents that a file or module declares, by name; for "...:name" only that agent.

    Raises UnknownAgent as load_agent does, and if no agent is declared.
    """
    if ":" in reference:
        spec = load_agent(reference)
        return {spec.name: spec}
    is_file = reference.endswith(".py") or "/" in reference
    module = _load_file(Path(reference)) if is_file else _load_module(reference, None)
    found = [value for value in vars(module).values() if isinstance(value, AgentSpec)]
    own = {spec.name: spec for spec in found if spec.__module__ == module.__name__}
    if not own:
        raise UnknownAgent(f"{reference} declares no agent; declare one with @agent")
    return own


def _load_module(name: str, file: str | None) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if file is not None and Path(file).exists():
            return _load_file(Path(file))
        raise UnknownAgent(
            f"module {name} cannot be imported: {error}; run this in its folder, or name its file: FILE.py:NAME"
        ) from None
    except (Exception, SystemExit) as error:  # a user's module may raise anything during its import
        raise UnknownAgent(f"module {name} fails when it is imported: {_told(error)}") from error


def _load_file(path: Path) -> ModuleType:
    path = path.resolve()
    main = sys.modules.get("__main__")
    if main is not None and getattr(main, "__file__", None) and Path(str(main.__file__)).resolve() == path:
        return main
    if (loaded := _files.get(str(path))) is not None:
        return loaded
    if not path.is_file():
        raise UnknownAgent(f"there is no file {path}")
    name = f"supervisor_agents_{digest(str(path))[:12]}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UnknownAgent(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = _files[str(path)] = module
    sys.path.insert(0, str(path.parent))  # as `python FILE` does: the file can import modules of its folder
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:  # a user's file may raise anything when it is run
        del sys.modules[name], _files[str(path)]
        where = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
        raise UnknownAgent(f"{path} cannot be loaded{where}: {_told(error)}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def _told(error: BaseException) -> str:
    """Return the exception of an import in words."""
    if isinstance(error, SystemExit):
        return f"it ends the program (exit code {error.code})"
    return f"{type(error).__name__}: {error}"
