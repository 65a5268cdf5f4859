"""The command line: one App, and one border at which every error becomes one clear line and an exit code.

Rules
- stdout carries the answer alone; with --json, that is one JSON document. Hints and errors go to stderr.
- A command's module is imported when the command is called, so that every command answers within half a second.
- Commands work on a `seam.supervisor.Supervisor`, which `options.Place` opens. No command reads a store.
"""

import os
import sys
from collections.abc import Sequence
from importlib import metadata
from typing import Any

from cyclopts import App, CycloptsError, Parameter, UnknownOptionError, UnusedCliTokensError

from supervisor.cli import repair
from supervisor.cli.exits import code_of, explain
from supervisor.core.errors import SupervisorError
from supervisor.system.inside import refuse_inside_call
from supervisor.system.refusals import row_of

__all__ = ["main"]

_COMMANDS = {
    "demo": ("running", "Run the demonstration: sub-agents work on a small real project, and some of them ask you."),
    "run": ("running", "Run an agent, or go on with its unfinished session."),
    "start": ("starting", "Start an agent that a daemon, a server or a cluster offers, and follow it."),
    "resume": ("running", "Go on with a session, or with every open session that no process runs."),
    "retry": (
        "running",
        "Run a session again that failed: what led to the failure is repeated, all other results are kept.",
    ),
    "fork": ("running", "Start a new session from a copy of another one, as it was before a journal entry."),
    "serve": ("serving", "Run a store's sessions, and let people decide in browsers, in chats and over HTTP."),
    "worker": ("worker", "Run the sessions of a namespace of Temporal, on as many machines as you like."),
    "rescue": ("rescuing", "Let a session on Temporal go on with other code, or let a parked one go on."),
    "mcp": (
        "mcp_server",
        "Ask people for what Claude Code wants, or about the calls of any MCP server; a client starts it.",
    ),
    "init": ("configuring", "Write a commented configuration for `serve`, to start from."),
    "check": ("configuring", "Check a configuration."),
    "check-replay": ("checking", "Check whether today's code can go on with the open sessions, by a replay in memory."),
    "token": ("tokens", "Make a token for a person and its hash for the configuration; list tokens; revoke one."),
    "discord": ("platforms", "Register the slash commands with Discord."),
    "approvals": ("reading", "List the calls and questions that wait for a person, oldest first."),
    "approve": ("deciding", "Approve a call, once or with all later calls like it."),
    "deny": ("deciding", "Deny a call: it does not run, and the agent is told so."),
    "answer": ("deciding", "Answer a question that an agent asks."),
    "ack": ("hushing", "Say that you are on what waits: no reminder of it comes for half an hour."),
    "snooze": ("hushing", "Hear nothing of what waits until later; others do, and it stays."),
    "rules": ("rules", "List the standing rules; `rules allow`, `ask`, `deny` and `revoke` change them."),
    "schedules": (
        "schedules",
        "List what begins by the clock; `schedules add`, `pause`, `resume`, `run` and `remove` change it.",
    ),
    "send": ("messages", "Send a message to a session."),
    "budget": ("usage", "Raise what a session and everything below it may spend."),
    "cancel": ("deciding", "Cancel a session and every sub-agent below it."),
    "sessions": ("reading", "List sessions and their status."),
    "top": ("top", "Show what every run is doing, since when, and what it waits for."),
    "show": ("reading", "Show what happened in a session."),
    "usage": ("usage", "Show what was spent on models, by agent, model, person or day."),
    "jobs": ("jobs", "List background jobs and their status."),
    "import": ("importing", "Import a session of pi, OpenClaw, Claude Code or Codex, to read it or to go on with it."),
    "export": ("exporting", "Write the journals of a session's whole tree as JSON lines."),
    "prune": ("pruning", "Remove session trees that ended long ago."),
    "audit": ("reading", "List what was asked, who decided it, and what then ran."),
    "--install-completion": ("completing", "Let bash, zsh or fish complete commands and options."),
}
"""Name -> its module, and its line in the list of commands, for which no module is imported."""


def make_app(called: str | None = None, program: str = "supervisor") -> App:
    """Return the command line, with every command registered and none imported.

    `called`: the command that is called. Its help is its whole docstring. `program`: its name.
    """
    app = App(
        name=program,
        help="Run AI sub-agents that wait for people. Their questions survive restarts, and no call runs twice.",
        version=lambda: f"subagent-supervisor {metadata.version('subagent-supervisor')}",
        default_parameter=Parameter(show_default=_shown_default),
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
    )
    for place, (name, (module, line)) in enumerate(_COMMANDS.items()):
        function = {"import": "import_", "rules": "commands", "schedules": "commands"}.get(
            name, name.strip("-").replace("-", "_")
        )
        shown = None if name == called else line
        app.command(f"supervisor.cli.{module}:{function}", name=name, help=shown, sort_key=place)
    repair.register(app)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        given = sys.argv[1:] if arguments is None else arguments
        _refuse_inside(given)
        result = make_app(called=given[0] if given else None)(given)
        sys.stdout.flush()
    except CycloptsError as error:
        return _fail(f"{_misused(error)} (see {' '.join(['supervisor', *(error.command_chain or ())])} --help)", 2)
    except KeyboardInterrupt:
        return _fail("stopped", 130)
    except UnicodeEncodeError as error:  # bytes that are no text, such as the name of a file
        return _fail(f"{error.object!r} is not UTF-8 text, which ids and JSON are", 2)
    except BrokenPipeError:  # `supervisor sessions | head`: the reader has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (SupervisorError, OSError) as error:
        return _fail(explain(error), code_of(error))
    return result if isinstance(result, int) else 0


def _refuse_inside(given: Sequence[str]) -> None:
    """Raise NotEntitled for a command that the table refuses inside a call (A4), before its module is imported."""
    row = row_of(given)
    if row is not None and row.says == "refused" and not {"--help", "-h"} & {*given}:
        refuse_inside_call(row.what)


def _shown_default(default: Any) -> str | None:
    """Return the default that the help of an option shows: a flag, and an option that may be left out, show none."""
    return None if default is None or default is False else str(default)


def _misused(error: CycloptsError) -> str:
    if isinstance(error, UnusedCliTokensError):
        return (
            f"too many arguments, from {(error.unused_tokens or [''])[0]!r} on: put a text of several words in quotes"
        )
    if isinstance(error, UnknownOptionError) and "--server" in str(error):
        return "this works only on the machine that has the store: run it there"
    return str(error)


def _fail(text: str, code: int) -> int:
    first, *more = (" ".join(line.split()) for line in text.strip().split("\n"))
    print("\n  ".join([f"supervisor: {first}", *filter(None, more)]), file=sys.stderr)
    return code
