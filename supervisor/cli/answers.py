"""What commands print: JSON documents (core/documents.py), and lines for people.

Rules
- stdout carries the answer alone. Hints and warnings go to stderr.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from supervisor.cli.options import AnyPlace
from supervisor.core.documents import outcome_document
from supervisor.core.values import Approval, SessionView

if TYPE_CHECKING:
    from rich.console import Console


def run_document(view: SessionView) -> dict[str, Any]:
    return {"session": view.id, "outcome": outcome_document(view)}


def print_json(document: Any) -> None:
    sys.stdout.write(msgspec.json.format(msgspec.json.encode(document)).decode() + "\n")
    sys.stdout.flush()


def print_value(value: Any) -> None:
    """Print what an agent returned: text as it is, anything else as JSON.

    On a screen, control characters are escaped.
    """
    from supervisor.core.text.visible import json_text, visible

    is_seen = sys.stdout.isatty()
    if isinstance(value, str):
        print(visible(value, kind="prose", lines=True) if is_seen else value)
    else:
        print(json_text(value, indent=2) if is_seen else msgspec.json.format(msgspec.json.encode(value)).decode())
    sys.stdout.flush()


def say_on_stderr(text: str) -> None:
    """Print a text for people, on stderr."""
    print(text, file=sys.stderr, flush=True)


def say_kept(agent: str, root: str, place: AnyPlace) -> None:
    """Say that no process runs the tree yet for which something was decided or sent, and what runs it. `agent`: the
    name of the root's agent."""
    if place.temporal is not None:
        say_on_stderr(f"It is kept until a worker runs the session: supervisor worker FILE.py{place.option}")
        return
    from supervisor.system.loading import command_of

    if (command := command_of(agent, root)) is not None:
        say_on_stderr(f"It is kept until the program that asked starts {command} again, and asks for the same.")
        return
    say_on_stderr(
        "It is kept until a process runs the session. A daemon (supervisor serve) does; "
        f"without one: supervisor resume {root}{place.option}"
    )


def ways_to_decide(waiting: Iterable[Approval], option: str) -> str:
    """Return the commands that decide pending approvals, as one text; empty if there are none. `option`: names the
    store."""
    kinds = {approval.kind for approval in waiting if approval.status == "pending"}
    ways = [f"supervisor approve ID{option}"] if "call" in kinds else []
    ways += [f"supervisor answer ID VALUE{option}"] if "question" in kinds else []
    ways += [f"supervisor deny ID --reason TEXT{option}"] if kinds else []
    return "    or    ".join(ways)


def open_console(*, is_folded: bool = False) -> "Console":
    """Return a console on stdout, as wide as the screen.

    Where stdout is no terminal, lines are as long as their text needs; with `is_folded`, they have 80 columns.
    """
    from rich.console import Console

    class Paper(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError  # rich would exit with 1, but a reader that closed the pipe is no error

    width = None if is_folded or sys.stdout.isatty() else 1000
    return Paper(highlight=False, markup=False, emoji=False, width=width)


@contextmanager
def stdout_for_json(*, is_json: bool) -> Iterator[None]:
    """Send to stderr what agents and their modules print meanwhile, so that stdout is one JSON document."""
    if not is_json:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
