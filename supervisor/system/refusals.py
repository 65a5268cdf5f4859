"""What a process that a supervised call started may command on the command line, and what not: one table.

    refused    it would be a person's act: a decision, an order, a rule, or the running of what others have started
    own tree   only in the tree of its own call, or in a tree that this process runs itself
    allowed    it only looks, or it asks people itself

Theory: what a call runs may look and may ask. It never answers, and it never runs or ends what is not its own (A4).
inside.py says what is inside a call. The rows of commands that a Supervisor has, too, are those of its laws
(seam/commands.py): on a store and on Temporal they hold through Python, and on a server here only.

`start` of a Supervisor is allowed: a new session asks people as each other one does. It is refused where it would run a
tree of another process. The command is refused: it starts what a server or a daemon runs, as a person.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

from supervisor.seam import commands as c

Says = Literal["refused", "own tree", "allowed"]


class Row(NamedTuple):
    """`what`: the act, as errors name it."""

    says: Says
    what: str = ""


def _law(command: type[c.Command[Any]]) -> Row:
    return Row(c.LAWS[command].inside, c.LAWS[command].doing)


_LOOKS: Final = Row("allowed", "looking")

COMMANDS: Final[Mapping[str, Row]] = {
    **dict.fromkeys(("approve", "deny", "answer"), _law(c.Decide)),
    "send": _law(c.Send),
    **dict.fromkeys(("rules allow", "rules ask", "rules deny"), _law(c.AddRule)),
    "rules revoke": _law(c.RevokeRule),
    "schedules add": _law(c.AddSchedule),
    **dict.fromkeys(("schedules pause", "schedules resume", "schedules remove"), _law(c.ChangeSchedule)),
    "schedules run": _law(c.RunSchedule),
    "resume": _law(c.Resume),
    "retry": _law(c.Retry),
    "fork": _law(c.Fork),
    "import": _law(c.Import),
    "prune": _law(c.Prune),
    "prune --dry-run": _LOOKS,
    "ack": _law(c.Acknowledge),
    "snooze": _law(c.Snooze),
    "approvals --reveal": _law(c.Reveal),
    "serve": Row("refused", "serving"),
    "worker": Row("refused", "running a worker"),
    "rescue": Row("refused", "rescuing a session"),
    "token revoke": Row("refused", "revoking a token"),
    "cancel": _law(c.Cancel),
    "budget": _law(c.RaiseBudget),
    **dict.fromkeys(("run", "demo"), _law(c.Start)),
    "start": Row("refused", "starting"),  # what a daemon runs, as a person who may write its store or has a token
    "mcp": Row("allowed", "asking for permissions"),
    "top": Row("allowed", "looking"),  # its keys only leave it
    "init": Row("allowed", "writing a configuration"),
    "check": Row("allowed", "checking a configuration"),
    "discord": Row("allowed", "registering commands"),
    "token": Row("allowed", "making a token"),  # which no one has configured
    "repair": Row("allowed", "repairing another program's file"),
    **dict.fromkeys(
        ("approvals", "rules", "schedules", "sessions", "show", "jobs", "export", "audit", "check-replay", "usage"),
        _LOOKS,
    ),
    "--install-completion": Row("allowed", "completing commands"),
}


def row_of(words: Sequence[str]) -> Row | None:
    """Return the row of a command line: the one whose words it has, the longest; None for no command of ours."""
    found = [key for key in COMMANDS if key.split()[:1] == [*words[:1]] and set(key.split()) <= set(words)]
    return COMMANDS[max(found, key=len)] if found else None


UNATTENDED: Final = Row("refused", "allowing everything (unattended)")
"""Of the option `--unattended allow`, and of `open_supervisor(unattended="allow")`."""

HELD: Final[bool] = False
"""Whether the system keeps the commands of calls from deciding. So far nothing does: they run as the same user."""
WHAT_HOLDS: Final = (
    "nothing keeps commands that run here from deciding, since they run as the same user: run agents as another user, "
    "or elsewhere (docs/explanation/who-may-decide.md)"
)
"""What `serve`, /health and `top` say of that, in one line."""
