"""The blocks of docs/reference/api.md as the code says them: names, signatures, fields, commands and HTTP paths.

`python -m tests.api_page` writes them anew; a person writes the prose between them. A block begins with what it shows:

    python supervisor           stubs of public names of a module; a new name is added by hand as `class Name: ...`
    text commands               every command with its arguments and options
    text http                   every path of the HTTP API with its query
"""

import ast
import importlib
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Literal, get_origin

from cyclopts import App

from supervisor.channels.web.openapi import openapi
from supervisor.channels.web.table import endpoints
from supervisor.cli import make_app

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "reference" / "api.md"
sys.path.append(str(DOCS))
import from_code  # noqa: E402 # how the site is made knows what is public

MODULES = (*from_code.MODULES, *from_code.MODULES_OF_EXTRAS)
BLOCK = re.compile(r"^```(python|text) (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ONLY_HANDED = {"AgentSpec", "ToolSpec"}
ONLY_MADE = {
    "MemoryStore",
    "CopyingStore",
    "SqliteStore",
    "Terminal",
    "Telegram",
    "Email",
    "SmtpServer",
    "Slack",
    "Discord",
    *ONLY_HANDED,
}
"""Classes of which a program makes an object, or is handed one, and passes it on: their methods are private."""
SHOWN_FIELDS = {("CopyingStore", "copies")}
"""What a program reads of them all the same."""
SHOWN_DECORATORS = {"overload", "property", "asynccontextmanager", "contextmanager", "dataclass(frozen=True)"}
HIDDEN_BASES = {"ABC", "DeclaredFunction", "IndexReads", "Store"}


def stubs_of(module: str, name: str) -> list[ast.stmt]:
    """Return how a name is declared, without bodies and docstrings: several statements where it is overloaded."""
    home = _home(module, name)
    nodes = [node for node in ast.parse(inspect.getsource(home)).body if name in bound_by(node)]
    shown = [node for node in nodes if _is_overload(node)] or nodes[:1]
    return [_Spelt(home).visit(_stub(node, name)) for node in shown]


def _home(module: str, name: str) -> ModuleType:
    """Return the module that defines a public name. An alias or a constant does not say where that is: the import of
    the public module does."""
    public = importlib.import_module(module)
    found = getattr(public, name)
    if inspect.isclass(found) or inspect.isroutine(found) or hasattr(found, "fn"):
        home = sys.modules[found.__module__]
    else:
        nodes = ast.walk(ast.parse(inspect.getsource(public)))
        imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
        (place,) = {str(node.module) for node in imports for each in node.names if (each.asname or each.name) == name}
        home = importlib.import_module(place)
    assert getattr(home, name) is found
    return home


class _Spelt(ast.NodeTransformer):
    """Says what private names stand for: the words of a Literal, and constants that are defaults."""

    def __init__(self, home: ModuleType) -> None:
        self._known = vars(home)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AnnAssign:
        node.annotation = self.visit(node.annotation)
        node.value = node.value and self.visit(node.value)
        return node

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        node.value = self.visit(node.value)
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        found = self._known.get(node.id)
        is_private = node.id not in from_code.public_names("supervisor")
        if is_private and (
            get_origin(found) is Literal or (node.id.isupper() and isinstance(found, int | float | str))
        ):
            return ast.parse(repr(found).removeprefix("typing."), mode="eval").body
        return node


def bound_by(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    return {node.target.id} if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else set()


def _is_overload(node: ast.stmt) -> bool:
    return isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and "overload" in map(
        ast.unparse, node.decorator_list
    )


def _stub(node: ast.stmt, name: str) -> ast.stmt:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        node.decorator_list = [each for each in node.decorator_list if ast.unparse(each) in SHOWN_DECORATORS]
        node.body = [ast.Expr(ast.Constant(...))]
        first = node.args.args[:1]
        if first and first[0].annotation is not None and "ToolContext" in ast.unparse(first[0].annotation):
            node.args.args = node.args.args[1:]  # a tool's context is no argument
    elif isinstance(node, ast.ClassDef):
        node.decorator_list = [each for each in node.decorator_list if ast.unparse(each) in SHOWN_DECORATORS]
        node.bases = [each for each in node.bases if ast.unparse(each).split("[")[0] not in HIDDEN_BASES]
        for base in node.bases:
            if ast.unparse(base) == "msgspec.Struct":
                node.bases[node.bases.index(base)] = ast.Name("Struct")
        is_event = any(ast.unparse(each) == "Event" for each in node.bases)
        node.keywords = [each for each in node.keywords if each.arg == "kw_only" and not is_event]
        node.body = list(_members(node, only_made=name in ONLY_MADE)) or [ast.Expr(ast.Constant(...))]
    elif isinstance(node, ast.AnnAssign) and node.value is not None and any(map(_is_private, ast.walk(node.value))):
        node.value = ast.Constant(...)
    return node


def _is_private(node: ast.AST) -> bool:
    return isinstance(node, ast.Name) and node.id.startswith("_")


def _members(node: ast.ClassDef, *, only_made: bool) -> Iterator[ast.stmt]:
    overloaded = {name for each in node.body if _is_overload(each) for name in bound_by(each)}
    for each in node.body:
        for name in bound_by(each):
            is_hidden = (
                (only_made and (node.name, name) not in SHOWN_FIELDS)
                or name.startswith("_")
                or (name in overloaded and not _is_overload(each))
            )
            if (name == "__init__" and node.name not in ONLY_HANDED) or not is_hidden:
                yield _stub(each, name)


def lines_of_commands() -> list[str]:
    """Return a line for each command: its arguments, [in brackets] if they may be left out, and its options."""
    return list(_lines_of(make_app(), "supervisor"))


def _lines_of(app: App, called: str) -> Iterator[str]:
    for name in app:
        if not name.startswith("-"):
            below = app[name]
            if below.default_command is not None:
                words = [f"{called} {name}"]
                for argument in below.assemble_argument_collection(parse_docstring=False):
                    word = argument.name
                    if word != "*":  # a class of several options, each of which follows
                        words.append(word if argument.required or word.startswith("-") else f"[{word}]")
                yield " ".join(words)
            yield from _lines_of(below, f"{called} {name}")


def lines_of_http() -> list[str]:
    """Return a line for each operation of the OpenAPI document: method, path, and the names of its query."""
    document, lines = openapi(endpoints()), []
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            query = [each["name"] for each in operation.get("parameters", ()) if each.get("in") == "query"]
            lines.append(f"{method.upper():6} {path}" + (f"?{'&'.join(query)}" if query else ""))
    return lines


def block_of(kind: str, shown: str) -> str:
    """Return what a block should hold that now holds `shown`."""
    if kind == "commands":
        return "\n".join(lines_of_commands()) + "\n"
    if kind == "http":
        return "\n".join(lines_of_http()) + "\n"
    names = dict.fromkeys(name for node in ast.parse(shown).body for name in bound_by(node))
    stubs = [ast.unparse(ast.fix_missing_locations(stub)) for name in names for stub in stubs_of(kind, name)]
    return formatted("\n".join(stubs))


def formatted(source: str) -> str:
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", "api.pyi", "-"]
    return subprocess.run(command, input=source, capture_output=True, text=True, check=True, cwd=DOCS.parent).stdout


def main() -> None:
    text = PAGE.read_text()
    PAGE.write_text(BLOCK.sub(lambda m: f"```{m[1]} {m[2]}\n{block_of(m[2], m[3])}```", text))


if __name__ == "__main__":
    main()
