"""What a process that a supervised call started may do with a store, and what not: one table for commands and methods.

    refused    it would be a person's act: a decision, an order, a rule, or the running of what others have started
    own tree   only in the tree of its own call, or in a tree that this process runs itself
    allowed    it only looks, or it asks people itself

Theory: what a call runs may look and may ask. It never answers, and it never runs or ends what is not its own. Each
method of a Supervisor and each command is a row, so none is forgotten (A4). inside.py says what is inside a call.

Rules
- A row of a method holds on a store, also through Python. On a server and on Temporal, the command line holds it.
- `start` is allowed: a new session asks people as each other one does. It is refused where it would run a tree of
  another process (as `resume`). The command is refused: it starts what a server or a daemon runs, as a person.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

Says = Literal["refused", "own tree", "allowed"]


class Row(NamedTuple):
    """`what`: the act, as errors name it."""

    says: Says
    what: str = ""


_LOOKS: Final = Row("allowed", "looking")

METHODS: Final[Mapping[str, Row]] = {
    "decide": Row("refused", "deciding"),
    "chat": Row("refused", "sending"),
    "send": Row("refused", "sending"),
    "add_rule": Row("refused", "changing rules"),
    "revoke_rule": Row("refused", "changing rules"),
    "resume": Row("refused", "resuming"),
    "resume_all": Row("refused", "resuming"),
    "retry": Row("refused", "retrying"),
    "fork": Row("refused", "forking"),
    "import_session": Row("refused", "importing"),
    "prune": Row("refused", "pruning"),
    "cancel": Row("own tree", "cancelling another session"),
    "raise_budget": Row("refused", "raising a budget"),
    "reveal": Row("refused", "looking at credentials"),
    "start": Row("allowed", "starting"),
    "note_refusal": Row("allowed", "noting that a person was refused"),
    "note_shown": Row("allowed", "noting what a channel has shown"),
    "listen": _LOOKS,
    "check": _LOOKS,
    "wait_until_broken": _LOOKS,
    **dict.fromkeys(("get_run", "get_session", "get_tree", "get_approval", "get_transcript", "get_counts"), _LOOKS),
    "get_usage": _LOOKS,
    **dict.fromkeys(("find_sessions", "find_approvals", "find_entries", "find_audit", "find_rules"), _LOOKS),
    **dict.fromkeys(("find_agents", "find_jobs", "find_owners"), _LOOKS),
    **dict.fromkeys(("watch_inbox", "watch_approvals", "watch_session", "watch_activity", "watch_text"), _LOOKS),
}

COMMANDS: Final[Mapping[str, Row]] = {
    "approve": Row("refused", "deciding"),
    "deny": Row("refused", "deciding"),
    "answer": Row("refused", "deciding"),
    "send": Row("refused", "sending"),
    "rules allow": Row("refused", "changing rules"),
    "rules ask": Row("refused", "changing rules"),
    "rules deny": Row("refused", "changing rules"),
    "rules revoke": Row("refused", "changing rules"),
    "resume": Row("refused", "resuming"),
    "retry": Row("refused", "retrying"),
    "fork": Row("refused", "forking"),
    "import": Row("refused", "importing"),
    "prune": Row("refused", "pruning"),
    "prune --dry-run": _LOOKS,
    "approvals --reveal": Row("refused", "looking at credentials"),
    "serve": Row("refused", "serving"),
    "worker": Row("refused", "running a worker"),
    "rescue": Row("refused", "rescuing a session"),
    "token revoke": Row("refused", "revoking a token"),
    "cancel": Row("own tree", "cancelling another session"),
    "budget": Row("refused", "raising a budget"),
    "run": Row("allowed", "starting"),
    "demo": Row("allowed", "starting"),
    "start": Row("refused", "starting"),  # what a daemon runs, as a person who may write its store or has a token
    "mcp": Row("allowed", "asking for permissions"),
    "top": Row("allowed", "looking"),  # its keys only leave it
    "init": Row("allowed", "writing a configuration"),
    "check": Row("allowed", "checking a configuration"),
    "discord": Row("allowed", "registering commands"),
    "token": Row("allowed", "making a token"),  # which no one has configured
    "repair": Row("allowed", "repairing another program's file"),
    **dict.fromkeys(
        ("approvals", "rules", "sessions", "show", "jobs", "export", "audit", "check-replay", "usage"), _LOOKS
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
