"""The command line: one App, and one border at which every error becomes one clear line and an exit code.

Rules
- stdout is for answers: with --json one JSON document and nothing else. Everything said to people goes to stderr.
- A command's module is imported when the command is called: a command answers within half a second.
- Commands talk to `abc.Supervisor`, opened by `app.open_supervisor`; nothing here reads a store.
"""

import os
import sys
from collections.abc import Sequence
from importlib import metadata

from cyclopts import App, CycloptsError, UnknownOptionError, UnusedCliTokensError

from supervisor.cli import repair
from supervisor.cli.exits import code_of, explain
from supervisor.core.errors import SupervisorError

__all__ = ["main"]

_COMMANDS = {
    "demo": ("running", "See it work: sub-agents on a small real project, some of which ask you."),
    "run": ("running", "Run an agent, or go on with it."),
    "start": ("starting", "Start an agent that a server offers, and follow it."),
    "resume": ("running", "Go on with a session, or with every one that nobody runs."),
    "retry": ("running", "Run a session again that ended badly: what led to that is done again, all else stays."),
    "fork": ("running", "Begin a new session with a copy of another one, as it was before an entry."),
    "serve": ("serving", "Run a store's sessions, and let people answer from anywhere."),
    "init": ("configuring", "Write a configuration for `serve`, commented, to begin with."),
    "check": ("configuring", "Check a configuration."),
    "check-replay": ("checking", "Replay open sessions with today's code, in memory: do they follow?"),
    "token": ("tokens", "Make a token for a person, and its hash for the configuration; list and revoke tokens."),
    "discord": ("platforms", "Make the slash commands known to Discord."),
    "approvals": ("reading", "List what waits for a person, oldest first."),
    "approve": ("deciding", "Say yes to one call: it runs once, or is asked no more."),
    "deny": ("deciding", "Say no to one call: nothing runs, and the agent is told so."),
    "answer": ("deciding", "Answer a question that an agent asks."),
    "rules": ("rules", "List the standing rules; `rules allow`, `ask`, `deny` and `revoke` change them."),
    "send": ("messages", "Say something to a session: it is received, kept, or begins a turn."),
    "cancel": ("deciding", "Cancel a session and every sub-agent below it."),
    "sessions": ("reading", "List sessions and how they are."),
    "top": ("top", "Show what every run is doing, since when, and what it waits for."),
    "show": ("reading", "Show what happened in a session, from its journal."),
    "jobs": ("jobs", "List background jobs, and how they are now."),
    "import": ("importing", "Bring a session of pi, OpenClaw, Claude Code or Codex in, to read and to go on with."),
    "export": ("exporting", "Write the journals of a session's whole tree as JSON lines."),
    "prune": ("pruning", "Remove trees that have ended and were silent for long."),
    "audit": ("reading", "List who asked, who decided what, and what then ran."),
}
"""Name -> module, and the line that the list of commands has for it without importing that module."""


def make_app() -> App:
    """Return the command line, with every command registered and none imported."""
    app = App(
        name="supervisor",
        help="Run AI sub-agents that wait for people: what is asked survives restarts, and nothing runs twice.",
        version=lambda: f"subagent-supervisor {metadata.version('subagent-supervisor')}",
        result_action="return_value",
        exit_on_error=False,
        print_error=False,
        suppress_keyboard_interrupt=False,
    )
    for place, (name, (module, line)) in enumerate(_COMMANDS.items()):
        function = {"import": "import_", "rules": "commands"}.get(name, name.replace("-", "_"))
        app.command(f"supervisor.cli.{module}:{function}", name=name, help=line, sort_key=place)
    repair.register(app)
    return app


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        _warn_of_namesake()
        result = make_app()(arguments)
        sys.stdout.flush()
    except CycloptsError as error:
        return _fail(f"{_misused(error)} (see {' '.join(['supervisor', *(error.command_chain or ())])} --help)", 2)
    except KeyboardInterrupt:
        return _fail("stopped", 130)
    except UnicodeEncodeError as error:  # bytes on the command line that are no text; files may have such names
        return _fail(f"{error.object!r} is not UTF-8 text, which ids and JSON are", 2)
    except BrokenPipeError:  # `supervisor sessions | head`: whoever read has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (SupervisorError, OSError) as error:
        return _fail(explain(error), code_of(error))
    return result if isinstance(result, int) else 0


def _misused(error: CycloptsError) -> str:
    if isinstance(error, UnusedCliTokensError):
        return f"too many words, from {(error.unused_tokens or [''])[0]!r} on: put a text of several words into quotes"
    if isinstance(error, UnknownOptionError) and "--server" in str(error):
        return "this works only on the machine that has the store: run it there"
    return str(error)


def _fail(text: str, code: int) -> int:
    print(f"supervisor: {' '.join(text.split())}", file=sys.stderr)
    return code


def _warn_of_namesake() -> None:
    """PyPI's `supervisor` (supervisord) ships a package of the same name, and one overwrites the other's files."""
    try:
        metadata.distribution("supervisor")
    except metadata.PackageNotFoundError:
        return
    print(
        "supervisor: warning: the distribution `supervisor` (supervisord) is installed here too, and overwrites files "
        "of this one; give each an environment of its own",
        file=sys.stderr,
    )
