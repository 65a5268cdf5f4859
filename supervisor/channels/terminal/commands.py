"""The commands that do what the keys do, for plain lines where nobody can press a key. Pure."""

import shlex
from typing import Any

from supervisor.channels.cards import NUMBERS, quoted
from supervisor.core.values import Approval
from supervisor.core.visible import json_text, visible


def commands(approval: Approval, store: str | None) -> dict[str, Any]:
    """Return a command for each word on an approval's card; `store`: where it is, if it has to be named."""
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
        "wider": f"supervisor approve {approval.id} --scope session|always{end}",
    }


def _typed(choice: str) -> str:
    """Return what to type for a choice: a JSON string where nobody can type it, or it would be taken for an option."""
    return json_text(choice) if choice.startswith("-") or choice != visible(choice) else choice
