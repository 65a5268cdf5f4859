"""What a person is told who has just said something to a session. Pure."""

from typing import Final

from supervisor.core.values import SendResult

_BECAME: Final = {
    "delivered": "was waiting for it",
    "begun": "begins a turn with it",
    "kept": "gets it when it asks for a message, or as its next turn",
}


def send_text(receipt: SendResult, *, is_sub_agent: bool = False) -> str:
    """Say what became of a message, behind the name of its session (R7)."""
    if is_sub_agent and receipt.kind == "kept":
        return "gets it if it asks for a message before it ends; if not, that is said in its story"
    return _BECAME[receipt.kind]
