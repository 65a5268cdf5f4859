"""Load agents: a session records the module and the file of its agent, and a resumed run imports it again.

Rules
- A reference is "module:name". For `__main__`, and for a file that was loaded by its path, it is
  "/absolute/file.py:name". The name is that of the function; for an agent that a factory made, the name in a module
  that has this very object.
- "acp:COMMAND" is a reference, too: SCHEMES says which factory makes the agent. A person who gives such a reference
  chooses what runs here, so only the command line, the configuration and code may; `holds_command` is the one check.
- One function, or one command, may be several agents: each configured one is found by its reference and its name.
- An agent that this process has already loaded under a reference is used again, so that nothing is imported twice.
- An agent of one command (`COMMANDS`) has the reference "command:name". It is in memory where that command runs, and
  no other process can load it: a daemon leaves its sessions alone.
- If an agent cannot be found, UnknownAgent is raised, and its session is left untouched.
"""

import importlib
import importlib.util
import shlex
import sys
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from pathlib import Path
from types import ModuleType
from typing import Any, Final
from weakref import WeakKeyDictionary, WeakSet

from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput, UnknownAgent
from supervisor.core.ids import digest_of_value

COMMANDS: Final[Mapping[str, str]] = {
    "command:claude-code": "supervisor mcp --permissions --session",
    "command:mcp-proxy": "supervisor mcp --before --name NAME --session",
}
"""The agents that only one command can run, by reference, with that command. The session's id follows."""
COMMAND_AGENTS: Final = frozenset(reference.rpartition(":")[2] for reference in COMMANDS)
"""Their names."""

SCHEMES: Final[dict[str, str]] = {"acp": "supervisor.agents.acp:acp_agent"}
"""The schemes of references that hold a command, and for each the factory that makes an agent of a name and the words
of the command. It is on a higher floor, so it is named here, and imported when the first such agent is loaded."""

_seen: Final[dict[str, AgentSpec[Any, Any]]] = {}
_files: Final[dict[str, ModuleType]] = {}
_named: Final[dict[str, dict[str, AgentSpec[Any, Any]]]] = {}
"""The agents of a reference by name: those that were configured, made of a command, or are in no module."""
_nameless: Final[WeakSet[AgentSpec[Any, Any]]] = WeakSet()
_located: Final[WeakKeyDictionary[AgentSpec[Any, Any], tuple[str, str | None]]] = WeakKeyDictionary()


def locate(spec: AgentSpec[Any, Any] | None) -> tuple[str, str | None]:
    """Return an agent's reference, "" of none, and the file of its module; None if it has no file."""
    if spec is None:
        return "", None
    return _located.get(spec) or _locate(spec, (spec.__module__,))


def locate_everywhere(spec: AgentSpec[Any, Any]) -> str | None:
    """Return the reference by which a later process finds an agent; None if there is none, since a factory made the
    agent, and no module has it. Looks into all modules, so that a factory may be in another one."""
    reference, _ = locate(spec)
    if spec in _nameless:
        modules = [where for where, module in sys.modules.items() if getattr(module, "__file__", None)]
        reference, _ = _locate(spec, modules)
        return None if spec in _nameless else reference
    return reference


def refuse_nameless(spec: AgentSpec[Any, Any]) -> None:
    """Raise InvalidInput for an agent that no later process would find."""
    if locate_everywhere(spec) is None:
        raise InvalidInput(
            f"agent {spec.name} has no name by which a later process finds it: assign it to a name at the top of a "
            "module, as in NAME = make_agent(...), or declare it there"
        )


def _locate(spec: AgentSpec[Any, Any], modules: Iterable[str]) -> tuple[str, str | None]:
    """Return where these modules have an agent; if they do not, where its function is."""
    found = _place_of(spec, modules)
    where, name = found or (spec.__module__, spec.__qualname__)
    module = sys.modules.get(where)
    file = getattr(module, "__file__", None)
    path = str(Path(file).resolve()) if file else None
    by_file = where == "__main__" or path in _files
    reference = f"{path if by_file and path else where}:{name}"
    there = _find_in(module, name)
    if found is None and (there is None or there.name != spec.name):  # not one that a reload replaced
        _nameless.add(spec)
        _named.setdefault(reference, {})[spec.name] = spec
    else:
        _nameless.discard(spec)
        _seen[reference] = spec
    _located[spec] = reference, path
    return reference, path


def _place_of(spec: AgentSpec[Any, Any], modules: Iterable[str]) -> tuple[str, str] | None:
    """Return the first of these modules that has this very object, and its name there; None if none of them has it."""
    if _find_in(sys.modules.get(spec.__module__), spec.__qualname__) is spec:
        return spec.__module__, spec.__qualname__
    for where in modules:
        for name, value in list(getattr(sys.modules.get(where), "__dict__", {}).items()):
            if value is spec:
                return where, name
    return None


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


def holds_command(reference: str) -> bool:
    """Return whether a reference holds a command, which would run on this machine."""
    scheme, colon, _ = reference.partition(":")
    return bool(colon) and scheme in SCHEMES


def load_agent(reference: str, /) -> AgentSpec[Any, Any]:
    """Return the agent of "FILE.py:NAME", "MODULE:NAME" or "acp:COMMAND", for `start`, `spawn` or an agent's `tools`.

    The agent of a command has the name of its program; the command is split into words as a shell does, and runs when
    the agent does. Give no reference that a model or a stranger wrote: it runs what it names.
    Raises UnknownAgent, and says what was searched for and what went wrong.
    """
    return load_recorded(reference, None, None)


def load_recorded(reference: str, file: str | None, name: str | None) -> AgentSpec[Any, Any]:
    """Return the agent of a session, or of a reference that a person wrote; see `load_agent`.

    `file`: the file to load if the module cannot be imported. `name`: the name under which a session has its agent, to
    find the one that was configured; None: the agent as it was declared.
    """
    if (why := why_not_here(reference)) is not None:
        raise UnknownAgent(f"{reference} cannot be loaded: {why}")
    if holds_command(reference):
        return _load_command(reference, file, name)
    where, _, attribute = reference.rpartition(":")
    if not where or not attribute:
        raise UnknownAgent(f"{reference!r} does not name an agent: write FILE.py:NAME or MODULE:NAME")
    is_file = where.endswith(".py") or "/" in where
    key = f"{Path(where).resolve()}:{attribute}" if is_file else reference
    if (seen := _find_named(key, name) or _seen.get(key)) is not None:
        return seen
    module = _load_file(Path(where)) if is_file else _load_module(where, file)
    found = _find_in(module, attribute)
    if found is None:
        names = sorted(n for n, v in vars(module).items() if isinstance(v, AgentSpec))
        known = f"it has {', '.join(names)}" if names else "it has none; declare one with @agent"
        raise UnknownAgent(f"{where} has no agent {attribute!r}: {known}")
    _seen[key] = found
    return found


def find_declared(reference: str, name: str | None = None) -> AgentSpec[Any, Any] | None:
    """Return the agent of a reference if this process has declared it. This imports nothing. `name` is as in
    `load_recorded`."""
    if (seen := _find_named(reference, name) or _seen.get(reference)) is not None:
        return seen
    where, _, attribute = reference.rpartition(":")
    found = (_find_in(module, attribute) for module in _loaded_as(where))
    return next((spec for spec in found if spec is not None), None)


def is_configured(reference: str, name: str) -> bool:
    """Return whether an agent of this reference was configured under this name."""
    return name in _named.get(reference, ())


def _find_named(reference: str, name: str | None) -> AgentSpec[Any, Any] | None:
    """Return the configured agent of a reference and a name; without a name, none is meant. If only one was configured,
    it has any name: it may have been renamed, or its session begun without the configuration."""
    found = _named.get(reference, {}) if name is not None else {}
    if len(found) == 1 and not holds_command(reference):
        return next(iter(found.values()))
    return found.get(name or "")


def _find_in(module: ModuleType | None, name: str) -> AgentSpec[Any, Any] | None:
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
    process also get it. One function may be several agents. Raises InvalidInput for an agent that was configured under
    this name already, or an invalid budget."""
    reference, _ = locate(spec)
    if is_configured(reference, name):
        raise InvalidInput(f"{reference} is configured twice as {name}")
    for key, value in changed.items():
        if key.endswith("_timeout") and not value > 0:
            raise InvalidInput(f"{key} must be more than 0 seconds, not {value}")
        if key == "passivate_after" and value is not None and not value >= 0:
            raise InvalidInput(f"{key} must be 0 or more seconds, not {value}")
    configured = copy(spec)
    for key, value in {"name": name, **changed}.items():
        setattr(configured, key, value)
    _located[configured] = _located[spec]
    _named.setdefault(reference, {})[name] = configured
    return configured


def make_agent(
    scheme: str, name: str, words: Sequence[str], *, file: str | None = None, **options: Any
) -> AgentSpec[Any, Any]:
    """Make the agent of a command, by the factory of a scheme. Sessions that are resumed in this process get it.

    `options`: of the factory. `file`: the configuration that has them; a process without it does not run its sessions.
    Raises InvalidInput if the command cannot be an agent.
    """
    where, _, factory = SCHEMES[scheme].partition(":")
    try:
        made: AgentSpec[Any, Any] = getattr(importlib.import_module(where), factory)(name, words, **options)
    except (ImportError, ValueError, TypeError) as error:
        raise InvalidInput(f"{scheme}:{shlex.join(words)}: {error}") from error
    reference = f"{scheme}:{shlex.join(words)}"
    _located[made] = reference, file
    _named.setdefault(reference, {})[name] = made
    return made


def _load_command(reference: str, file: str | None, name: str | None) -> AgentSpec[Any, Any]:
    """Return the agent of a reference that holds a command: the one that this process has, or a new one."""
    scheme, _, command = reference.partition(":")
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise UnknownAgent(f"{reference!r} cannot be read as words: {error}") from None
    if not words or not words[0]:
        raise UnknownAgent(f"{reference!r} has no command: write {scheme}:COMMAND, such as {scheme}:'opencode acp'")
    name = name or Path(words[0]).name
    if (known := _find_named(f"{scheme}:{shlex.join(words)}", name)) is not None:
        return known
    if file is not None:
        raise UnknownAgent(f"agent {name} is configured in {file}: supervisor serve --config {shlex.quote(file)}")
    try:
        return make_agent(scheme, name, words)
    except InvalidInput as error:
        raise UnknownAgent(str(error)) from None


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
    here = module.__name__  # and what it imported from there is declared elsewhere
    own = {each.name: each for each in found if (_place_of(each, (each.__module__, here)) or ("",))[0] == here}
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
    name = f"supervisor_agents_{digest_of_value(str(path))[:12]}_{path.stem}"
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
