"""The commands for plain lines: each does what a key does on a card. Pure."""

import shlex
from typing import Any

from supervisor.channels.wording.cards import NUMBERS, quoted
from supervisor.core.text.visible import json_text, visible
from supervisor.core.values import Approval


def card_commands(approval: Approval, store: str | None) -> dict[str, Any]:
    """Return a command for each word on an approval's card; `store`: the store's path, if a command must name it."""
    end = "" if store is None else f" --store {shlex.quote(store)}"
    if approval.kind == "question":
        answer = f"supervisor answer {approval.id}"
        few = approval.choices if approval.choices and len(approval.choices) <= len(NUMBERS) else ()
        return {
            **{quoted(choice): f"{answer} {shlex.quote(_typed(choice))}{end}" for choice in few},
            **{word: f"{answer} {word}{end}" for word in ("yes", "no")},
            "answer": f"{answer} VALUE{end}",
            "decline": f"supervisor deny {approval.id} --reason TEXT{end}",
        }
    return {
        "approve": f"supervisor approve {approval.id}{end}",
        "edit": f"supervisor approve {approval.id} --edit JSON{end}",
        "deny": f"supervisor deny {approval.id} --reason TEXT{end}",
        "wider": f"supervisor approve {approval.id} OPTION{end}",
    }


def _typed(choice: str) -> str:
    """Return the argument for a choice: a JSON string if it has characters that a person cannot type, or begins with
    "-" as an option does."""
    return json_text(choice) if choice.startswith("-") or choice != visible(choice, kind="prose") else choice
