"""The text that tells a person what happened to a message of theirs. Pure."""

from typing import Final

from supervisor.core.values import SendResult

_BECAME: Final = {
    "delivered": "was waiting for it",
    "begun": "begins a turn with it",
    "kept": "gets it when it asks for a message, or else as its next turn",
}


def send_text(receipt: SendResult, *, is_sub_agent: bool = False) -> str:
    """Return what happened to a message, as text that follows the name of its session (R7)."""
    if is_sub_agent and receipt.kind == "kept":
        return "gets it if it asks for a message before it ends; if it does not, its story says so"
    return _BECAME[receipt.kind]
