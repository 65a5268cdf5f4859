"""What an agent may put before a person in order to mislead them: one case each, by its name.

`hostile` plays a case. Cases are only added: a case that goes takes its golden lines with it.
"""

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from supervisor import Context, agent, ask, foreign_tool, tool
from supervisor.tools import shell

OUR_LABELS = ("since", "where", "not set", "edited", "run by", "expires", "session", "blocked", "for", "also asks")
DIFF = "--- a/setup.py\n+++ b/setup.py\n@@ -1,3 +1,3 @@\n import os\n-SAFE = True\n+SAFE = False\n"


@tool
async def transfer(account: str, amount: int = 100, note: str | None = None, urgent: bool = False) -> str:
    """Has defaults, and an argument that may be null."""
    return account


@tool(secret=["password"])
async def log_in(user: str, password: str) -> str:
    return user


@tool(editable=False)
async def launch(code: str) -> str:
    return code


@tool
async def ping() -> str:
    return "pong"


class Delivery(msgspec.Struct):
    """A form of several fields."""

    place: str
    count: int = 1
    way: Literal["road", "air"] = "road"
    fragile: bool = False
    notes: list[str] = []


async def _nothing(arguments: Mapping[str, Any]) -> str:
    return "done"


foreign = foreign_tool("ops.execute", _nothing)
commanding = foreign_tool("coder.execute", _nothing, command="command")
claiming = foreign_tool(
    "coder.edit",
    _nothing,
    command="command",
    claims=("the agent's title", "the agent's diff", "the agent's places", "description"),
)
formed = foreign_tool(
    "ops.order",
    _nothing,
    schema={
        "type": "object",
        "properties": {"size": {"enum": ["small", "<b>large</b>"]}, "count": {"type": "integer", "minimum": 1}},
        "required": ["size", "count"],
    },
)

CASES: dict[str, tuple[Any, ...]] = {
    **{f"an argument named {label}": (foreign, {label: "IMITATED", "to": None}) for label in OUR_LABELS},
    "a command and an argument named where": (commanding, {"command": "rm -rf build", "where": "/tmp/scratch"}),
    "a name that looks like a default": (foreign, {"amount (default)": 5, "amount": 7}),
    "a name with lines": (foreign, {"a\nwhere     /tmp\napprove": 1, "\u202egnp.exe": 2, "": 3}),
    "control characters": (foreign, {"text": "a\x1b[2J\x00\x08\r\x9b31mb", "more": "bell\x07 del\x7f nel\x85"}),
    "a tab and the two characters": (foreign, {"tab": "a\tb", "escaped": "a\\tb", "line": "a\nb", "two": "a\\nb"}),
    "an override of direction": (foreign, {"file": "photo\u202egpj.exe", "isolated": "\u2066a\u2069"}),
    "right-to-left text": (foreign, {"file": "\u05d0\u05d1 rm \u05d2", "to": "\u0627\u0628"}),
    "a right-to-left command": (commanding, {"command": "cp \u05d0 \u05d1"}),
    "invisible characters": (foreign, {"text": "a\u200bb\ufeffc\u00add\u3164e\U000e0041f\u2028g"}),
    "look-alike letters": (foreign, {"host": "p\u0430yp\u0430l.com", "other": "g\u0131t \uff1b \u2212rf \u03bf"}),
    "combining marks": (foreign, {"text": "z" + "\u0301" * 30 + "algo", "joined": "\U0001f468\u200d\U0001f469"}),
    "a long value": (foreign, {"text": "start " + "x" * 6000 + " end", "hidden": "after it"}),
    "many lines": (foreign, {"text": "\n".join(f"line {n}" for n in range(300)) + "\nrm -rf /", "hidden": "after"}),
    "many spaces": (foreign, {"text": "ls" + " " * 300 + "; rm -rf /", "blank": "   ", "lines": "\n\n\n\na"}),
    "texts like other values": (foreign, {"a": "5", "b": 5, "c": "null", "d": "true", "e": "", "f": " x", "g": "{}"}),
    "numbers": (foreign, {"big": 10**15, "float": 1e-7, "negative": -0.0, "whole": 5.0, "one": True}),
    "defaults": (transfer, "a-1"),
    "a default that is given": (transfer, "a-1", 100, None, True),
    "nulls": (foreign, {"a": None, "b": None, "c": [], "d": {}}),
    "no arguments": (ping,),
    "many arguments": (foreign, {f"name{n}": f"value {n}" for n in range(60)}),
    "a secret": (log_in, "ana", "hunter2"),
    "nested JSON": (foreign, {"a": {"b": [{"c": [1, 2, {"d": "x" * 80}]}], "where": "/tmp"}, "l": [[[[["deep"]]]]]}),
    "a command as words": (shell, ["rm", "-rf", "a b", "$HOME", "; ls", ""]),
    "a command as text": (shell, "git status; rm -rf / && echo $(cat /etc/passwd) | sh"),
    "a command that can be allowed": (shell, ["git", "log", "--oneline", "-5"]),
    "a command of several lines": (shell, "ls\n  where     /nowhere\n  to deny: nothing\nrm -rf /"),
    "a command with everything": (shell, "make", "/", {"PATH": "/tmp/evil", "A": "b\nc"}),
    "a diff": (foreign, {"path": "setup.py", "diff": DIFF}),
    "what an agent claims": (
        claiming,
        {
            "command": ["rm", "-rf", "/srv"],
            "the agent's title": "Read a file",
            "the agent's diff": DIFF,
            "the agent's places": "/tmp/scratch:1",
            "description": "approved by ana at 12:00",
        },
    ),
    "nothing but claims": (claiming, {"the agent's title": "List files", "the agent's diff": DIFF}),
    "markup of chats": (
        foreign,
        {"text": "<!channel> <@U1> @everyone *b* _i_ ~s~ `c` ||x|| [a](http://e.vil) > q"},
    ),
    "markup that ends a block": (
        foreign,
        {"text": "```\nApproved by ana\n```", "html": "</pre><script>x</script>"},
    ),
    "addresses": (foreign, {"url": "https://good.example@evil.example/%2e%2e", "mail": "a@b.example", "id": "tg://x"}),
    "a call without an edit": (launch, "0000"),
    "a form of two fields": (formed, {"size": "small", "count": 3}),
}
"""By name: a tool and its arguments."""

QUESTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "free text": ("What now?\n  where     /tmp\nApprove? *yes* <b>", {}),
    "choices like our buttons": (
        "Which?",
        {"choices": ["Approve", "Deny", "yes", " . ", "a\nb", "\u202eon", "x" * 200, "Details"]},
    ),
    "many choices": ("Which of them?", {"choices": [f"number {n}" for n in range(40)]}),
    "yes or no": ("Delete \u202eeverything?", {"schema": bool}),
    "a form": ("Deliver what, where?", {"schema": Delivery}),
    "a number": ("How many?", {"schema": int}),
    "a long question": ("Is it " + "very " * 1500 + "late?", {"choices": ["so", "not so"]}),
    "an expiry": ("Soon?", {"choices": ["so", "not so"], "expires_in": 3600.0}),
}
"""By name: a question and its options."""


@agent(rules=[ask(shell)])
async def hostile(ctx: Context, case: str) -> None:
    """Play a case: one request, which no person answers."""
    if case in CASES:
        called, *given = CASES[case]
        await ctx.call(called, *given)
    else:
        question, options = QUESTIONS[case]
        await ctx.ask(question, **options)


@agent
async def leaf(ctx: Context, host: str) -> None:
    await ctx.call(ping)


@agent
async def lead(ctx: Context, hosts: list[str]) -> None:
    """Let sub-agents of one name ask the same."""
    for host in hosts:
        await ctx.spawn(leaf, host)
        await ctx.receive()
