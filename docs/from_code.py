"""The pages that the code itself says: `docs/index.md` and `docs/made` are written anew at each build.

- `python`: a page for each public name, from its docstring
- `configuration`: the tables and keys of supervisor.toml
- `http-paths`: each path of the HTTP API, from its OpenAPI document
- `events`: what a journal holds
- `exit-codes`: those of the commands, and which error gives which
- `metrics`: what `/metrics` says
- `index`, `examples`, `contributing`, `changelog`: files for readers of the repository, with the links of the site
"""

import importlib
import inspect
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from supervisor.channels.web.metrics import FAMILIES
from supervisor.channels.web.openapi import openapi
from supervisor.channels.web.table import endpoints
from supervisor.cli import exits, make_app
from supervisor.core import events
from supervisor.wiring import config, starts

MODULES = (
    "supervisor",
    "supervisor.channels",
    "supervisor.channels.sdk",
    "supervisor.tools",
    "supervisor.events",
    "supervisor.blocking",
    "supervisor.testing",
)
"""The public modules that need no extra."""
MODULES_OF_EXTRAS = (
    "supervisor.agents.acp",
    "supervisor.agents.pydantic_ai",
    "supervisor.agents.openai_agents",
    "supervisor.agents.langgraph",
)
"""Those that need the packages of one: the site is built without them, so only the page of the public API has them."""
app = make_app()
"""What the page of the command line shows."""
OF_THE_ROOT = ("CONTRIBUTING", "CHANGELOG", "SECURITY", "CODE_OF_CONDUCT")
"""Pages of the repository's root that the site shows, too."""


def write_pages(folder: Path) -> None:
    """Write the pages below `folder`. A page that did not change keeps its time, so that a second build is quick."""
    for name, lines in (
        ("made/python.md", _python()),
        ("made/configuration.md", _configuration()),
        ("made/http-paths.md", _http()),
        ("made/events.md", _events()),
        ("made/commands.rst", _commands()),
        ("made/exit-codes.md", _exit_codes()),
        ("made/metrics.md", _metrics()),
        ("index.md", _index(folder)),
        ("made/examples.md", _copied(folder.parent / "examples" / "README.md", "../../examples/")),
        *((f"made/{name.lower()}.md", _copied(folder.parent / f"{name}.md", "../../")) for name in OF_THE_ROOT),
    ):
        text, file = "\n".join([*lines, ""]), folder / name
        file.parent.mkdir(exist_ok=True)
        if not file.exists() or file.read_text() != text:
            file.write_text(text)


def public_names(module: str) -> list[str]:
    """Return the public names of a module, sorted."""
    found = importlib.import_module(module)
    named = getattr(found, "__all__", None) or [
        name for name, each in vars(found).items() if not name.startswith("_") and not inspect.ismodule(each)
    ]
    return sorted(named)


def _python() -> Iterator[str]:
    yield "# Python names"
    yield "\nThis page is for people who write programs: every public name, each on a page of its own."
    yield "[The public API](/reference/api.md) shows them on one page, with how they belong together.\n"
    for module in MODULES:
        yield f"## {module}\n\n```{{eval-rst}}\n.. autosummary::\n   :toctree: names\n   :nosignatures:\n"
        yield from (f"   {module}.{name}" for name in public_names(module))
        yield "```\n"


def _commands() -> Iterator[str]:
    yield "Commands and their options\n==========================\n"
    yield "This page is for people who work in a shell: what ``supervisor COMMAND --help`` says of each command."
    yield ":doc:`/reference/command-line` says what commands have in common.\n"
    yield ".. cyclopts:: from_code:app\n   :heading-level: 2\n   :flatten-commands:"


def _configuration() -> Iterator[str]:
    yield "# supervisor.toml"
    yield "\nThis page is for people who configure a daemon: every table and key. `supervisor init` writes a commented"
    yield "file to start from, and `supervisor check` says what is wrong with one.\n"
    yield from _table(
        "Top level",
        config.Configuration,
        hidden=("folder", "file", "server", "agents", "rules", "people", "schedules", "triggers"),
    )
    yield from _table("[server]", config.ServerPart)
    yield from _table("[agents.NAME]", config.AgentPart)
    yield from _table("[[rules]] and [[agents.NAME.rules]]", config.RulePart)
    yield from _table("[schedules.NAME]", starts.SchedulePart)
    yield from _table("[triggers.NAME]", starts.TriggerPart)
    yield from _table("[people.NAME]", config.PersonPart)


def _table(title: str, part: type[msgspec.Struct], hidden: tuple[str, ...] = ()) -> Iterator[str]:
    yield f"## {title}\n"
    yield inspect.getdoc(part) or ""
    yield "\n| key | type | without it |\n|---|---|---|"
    for field in msgspec.structs.fields(part):
        if field.encode_name not in hidden:
            default = "required" if field.required else f"`{_default(field)}`"
            yield f"| `{field.encode_name}` | `{_type(field.type)}` | {default} |"
    yield ""


def _default(field: Any) -> str:
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    return {None: "none", (): "[]", True: "true", False: "false"}.get(value, str(value)) if _hashable(value) else "{}"


def _hashable(value: Any) -> bool:
    return not isinstance(value, dict | list)


def _type(kind: Any) -> str:
    text = kind.__name__ if inspect.isclass(kind) and not typing.get_args(kind) else str(kind)
    return re.sub(r"(typing|collections\.abc|supervisor(\.\w+)*)\.", "", text).replace("|", "or").replace(", ...", "")


def _http() -> Iterator[str]:
    yield "# HTTP paths"
    yield "\nThis page is for people who write clients: each path, from the OpenAPI document at `/openapi.json`."
    yield "[HTTP](/reference/http.md) says how to ask, and what an error looks like.\n"
    for path, operations in openapi(endpoints())["paths"].items():
        for method, operation in operations.items():
            yield f"## {method.upper()} {path}\n\n{operation['summary']}.\n"
            if about := operation.get("description"):
                yield f"{about}\n"
            given = operation.get("parameters", ())
            if query := [f"`{each['name']}`" for each in given if each.get("in") == "query"]:
                yield f"Query: {', '.join(query)}.\n"
            answers = [f"{code} ({each['description'].rstrip('.')})" for code, each in operation["responses"].items()]
            yield f"Answers: {', '.join(answers)}.\n"


def _events() -> Iterator[str]:
    yield "# Events of a journal"
    yield "\nThis page is for people who read exports, streams or journals: each event and its fields. Every event has"
    yield "`at`, its instant; an entry adds its position and session.\n"
    for name in public_names("supervisor.events"):
        kind = getattr(importlib.import_module("supervisor.events"), name)
        if inspect.isclass(kind) and issubclass(kind, events.Event) and kind is not events.Event:
            fields = [f"`{field.encode_name}`" for field in msgspec.structs.fields(kind) if field.name != "at"]
            yield f"## {name}\n\n{inspect.getdoc(kind) or ''}\n"
            yield f"Fields: {', '.join(fields) or 'none but `at`'}.\n"


def exit_codes() -> dict[str, str]:
    """Return what each exit code means; codes of one meaning are together, as in `130, 143, 129`."""
    listed = re.findall(r"^(\d[\d, ]*) +(\D.*(?:\n {4}.*)*)", inspect.getdoc(exits) or "", re.MULTILINE)
    return {codes.strip(): " ".join(means.split()).replace("|", r"\|") for codes, means in listed}


def _exit_codes() -> Iterator[str]:
    yield "# Exit codes"
    yield "\nThis page is for people who write scripts: what the exit code of a command says, and which exception"
    yield "gives which. [The command line](/reference/command-line.md) says what commands have in common.\n"
    yield "| exit code | means |\n|---|---|"
    yield from (f"| {codes} | {means} |" for codes, means in exit_codes().items())
    yield "\n| exception | exit code |\n|---|---|"
    yield from (f"| `{kind.__name__}` | {code:d} |" for kind, code in exits.CODES.items())
    yield "\nEvery other exception of a command gives 6; the outcome of a run gives 0, 1 or 3.\n"


def _metrics() -> Iterator[str]:
    yield "# Metrics"
    yield "\nThis page is for people who watch a daemon: every metric of `GET /metrics`, in Prometheus' text format."
    yield "[Keep the daemon running](/how-to/run-it-for-long.md) says what to alert on, and who may read them.\n"
    yield "| metric | kind | labels | says |\n|---|---|---|---|"
    for each in FAMILIES:
        labels = ", ".join(f"`{label}`" for label in each.labels) or "none"
        yield f"| `{each.name}` | {each.kind} | {labels} | {each.about} |"
    yield ""


_PLACES = {"../README.md": None, "../examples/README.md": "made/examples.md"}
_PLACES |= {f"../{name}.md": f"made/{name.lower()}.md" for name in OF_THE_ROOT}
"""Where the site has what the index of the repository links to; None: nowhere."""


def _index(folder: Path) -> Iterator[str]:
    def placed(link: re.Match[str]) -> str:
        place = _PLACES.get(link[2], link[2])
        return link[1] if place is None else f"[{link[1]}]({place})"

    yield re.sub(r"\[([^\]]*)\]\(([^)]*)\)", placed, (folder / "README.md").read_text())
    for title, pages in (
        ("Tutorial", "tutorial/*"),
        ("How to", "how-to/*"),
        (
            "Reference",
            "reference/*\nmade/python\nmade/commands\nmade/configuration\nmade/http-paths\nmade/events\nmade/exit-codes\nmade/metrics",
        ),
        ("Explanation", "explanation/*"),
        ("Project", "project/*\nmade/contributing\nmade/changelog\nmade/security\nmade/code_of_conduct"),
        ("Examples", "made/examples"),
    ):
        yield f"```{{toctree}}\n:hidden:\n:caption: {title}\n:glob:\n\n{pages}\n```\n"


def _copied(file: Path, place: str) -> Iterator[str]:
    """Return a file of the repository whose relative links begin at `place`, as the page sees it."""
    text = re.sub(r"\]\((?!https?:|#)([^)]*)\)", rf"]({place}\1)", file.read_text())
    yield re.sub(r"\]\((?:\.\./)+docs/", "](/", text)


def place_links(app: Any, page: str, text: list[str]) -> None:
    """Let links to pages of the repository's root lead to the site's pages."""
    names = "|".join(OF_THE_ROOT)
    text[0] = re.sub(rf"\]\((?:\.\./)+({names})\.md", lambda link: f"](/made/{link[1].lower()}.md", text[0])


def as_restructured_text(app: Any, what: str, name: str, found: Any, options: Any, lines: list[str]) -> None:
    """Turn a docstring, which is Markdown, into what autodoc reads: mark code, and escape what means something else."""
    if (
        what == "data"
        and type(found).__module__ == "builtins"
        and lines[:1] == (type(found).__doc__ or "").split("\n")[:1]
    ):
        lines.clear()  # the docstring of dict and the like says nothing about this one
        return
    text = "\n".join(lines)
    parts = re.split(r"((?<!`)`[^`]+`(?!`))", text)
    for index, part in enumerate(parts):
        if index % 2:
            parts[index] = f"``{part[1:-1].strip()}``"
        else:
            parts[index] = re.sub(r"([*|])|(?<=\w)_(?=\W|$)", lambda m: "\\" + m[0], part)
    lines[:] = "".join(parts).split("\n")
