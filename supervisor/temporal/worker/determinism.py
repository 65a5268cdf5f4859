"""What an agent's code may not call on Temporal: what gives another value in a replay, or reaches past the context.

temporalio has a list of such functions for its sandbox (`SandboxRestrictions`). We use the list and not the sandbox:
there each tree would import its agents' modules again, and `datetime.datetime` would be a proxy, which is no type of an
argument. So a worker reads the source of its agents when it starts. It refuses what the sandbox would refuse in a
running workflow, and names the file and the line.

Rules
- The function of an agent is read, what is defined inside it, and the functions of its module that it calls. Those that
  it gives to a step or a call are not read: they run as activities, and may do what they like.
- A name means what it means to Python: a variable of the function, of a function around it, of the module, a builtin.
- What cannot be read is not refused: a function without a source, a method of a variable. A replay finds it.
"""

import ast
import builtins
import inspect
import os
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any, Final

from temporalio.worker.workflow_sandbox import SandboxMatcher, SandboxRestrictions

from supervisor.core.declarations.agent_spec import AgentSpec
from supervisor.core.errors import InvalidInput

ONLY_PATHS: Final = frozenset(
    ("basename", "commonpath", "commonprefix", "dirname", "isabs", "join", "normcase", "normpath", "relpath", "split")
) | {"splitdrive", "splitext", "splitroot"}
"""Functions of os.path that look at no file. The list has them, since it has all of `os`."""
INSTEAD: Final[Mapping[str, str]] = {
    "time": "ctx.now() or ctx.sleep()",
    "datetime": "ctx.now()",
    "random": "ctx.random()",
    "secrets": "ctx.random()",
    "uuid": "ctx.random()",
}
"""What an agent has for the functions of a module."""


def refuse_undetermined(agents: Iterable[AgentSpec[..., Any]]) -> None:
    """Raise InvalidInput if the own code of an agent calls what temporalio's sandbox refuses. Agents that it names, to
    spawn or to call them, are read, too."""
    left, read = [(inspect.unwrap(spec.fn), f"agent {spec.name}") for spec in agents], set[Any]()
    while left:
        fn, name = left.pop()
        if fn not in read:
            read.add(fn)
            left += _read(fn, name)


def _read(fn: Callable[..., Any], name: str) -> list[tuple[Callable[..., Any], str]]:
    """Read a function. Return the agents that it names, and the functions of its module that it calls."""
    try:
        lines, first = inspect.getsourcelines(fn)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):  # no source, or one that is part of an expression
        return []
    names, further = _Names(fn, tree), list[tuple[Callable[..., Any], str]]()
    for node in ast.walk(tree):
        used = node.func if isinstance(node, ast.Call) else node.value if isinstance(node, ast.Subscript) else None
        if used is not None and _is_refused(place := names.place(used), is_called=isinstance(node, ast.Call)):
            instead = f"use {INSTEAD[place[0]]}, or " if place[0] in INSTEAD else ""
            raise InvalidInput(
                f"{inspect.getsourcefile(fn)}, line {first + used.lineno - 1}: {name} uses "
                f"{'.'.join(place).removeprefix('builtins.')}, which a workflow of Temporal may not, since it is run "
                f"again: {instead}move it into a step or a tool"
            )
        found = names.find(node.id) if isinstance(node, ast.Name) else None
        if isinstance(found, AgentSpec):
            further.append((inspect.unwrap(found.fn), f"agent {found.name}"))
        called = names.find(used.id) if isinstance(node, ast.Call) and isinstance(used, ast.Name) else None
        if inspect.isfunction(called) and called.__module__ == fn.__module__:
            further.append((called, f"{called.__qualname__}, which {name} calls,"))
    return further


def _is_refused(place: tuple[str, ...], *, is_called: bool) -> bool:
    """Return whether a function is on the list, or something that holds it. Of what is only looked up in, the
    environment is: types are written in the same way."""
    if (place[:2] == ("os", "path") and place[-1] in ONLY_PATHS) or not (is_called or place == ("os", "environ")):
        return False
    listed: SandboxMatcher | None = SandboxRestrictions.invalid_module_members_default
    for name in ("__builtins__", *place[1:]) if place[:1] == ("builtins",) else place:
        if listed is None or name in listed.exclude:
            return False
        if {name, "*"} & (listed.access | listed.use):
            return True
        listed = listed.children.get(name)
        if listed is not None and listed.match_self:
            return listed.leaf_warning is None
    return False


class _Names:
    """What the names in a function stand for."""

    def __init__(self, fn: Callable[..., Any], tree: ast.AST) -> None:
        self._known = {**vars(builtins), **fn.__globals__, **inspect.getclosurevars(fn).nonlocals}
        self._imported: dict[str, tuple[str, ...]] = {}
        for node in ast.walk(tree):
            match node:
                case ast.Import(names=names):
                    for each in names:
                        whole, top = each.name.split("."), each.name.split(".")[:1]
                        self._imported[each.asname or top[0]] = tuple(whole if each.asname else top)
                case ast.ImportFrom(module=str(module), names=names, level=0):
                    for each in names:
                        self._imported[each.asname or each.name] = (*module.split("."), each.name)
                case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name):
                    self._known.pop(name, None)  # a variable of its own

    def find(self, name: str) -> Any:
        """Return the value of a name; None if that is not known."""
        return None if name in self._imported else self._known.get(name)

    def place(self, node: ast.expr) -> tuple[str, ...]:
        """Return where that is defined which an expression stands for, from its module on; empty if that is not known.
        An instance of a class stands for the class."""
        match node:
            case ast.Attribute(value=inner, attr=attr):
                place = self.place(inner)
                return (*place, attr) if place else ()
            case ast.Name(id=name) if name in self._imported:
                return self._imported[name]
            case ast.Name(id=name):
                return _place_of(self.find(name))
            case ast.Call(func=ast.Name(id=name)) if isinstance(self.find(name), type):
                return self.place(node.func)
            case _:
                return ()


def _place_of(found: Any) -> tuple[str, ...]:
    """Return the module and the name of a module, a class or a function."""
    if found is os.environ:
        return ("os", "environ")
    if isinstance(found, ModuleType):
        return ("os", "path") if found is os.path else tuple(found.__name__.split("."))
    listed = SandboxRestrictions.invalid_module_members_default.children
    for module in ("builtins", getattr(found, "__module__", None) or "", *listed) if callable(found) else ():
        for name, value in vars(sys.modules[module]).items() if module in sys.modules else ():
            if value is found:
                return (*module.split("."), name)
    return ()
