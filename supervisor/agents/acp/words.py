"""What the supervisor tells an agent in a prompt, besides the messages of people: what was decided, and what was lost.

An agent remembers less than the journal. After its process has ended it may show a call as completed that never ran,
or not know the session at all. So a prompt says what the journal knows.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from supervisor.agents.acp.permissions import cut, title_of
from supervisor.agents.acp.saved import Asked
from supervisor.core.ids import canonical_json
from supervisor.core.values import Message

LONGEST_CHARACTERS: Final = 2_000  # characters of one call, or of one message, in a prompt
SUMMARY_CHARACTERS: Final = 16_000  # characters of a session's history that a new session is told


def resumed(message: str, known: Iterable[tuple[Asked, bool]], *, was_prompted: bool) -> str:
    """Return the first prompt of a process. `known`: the requests of an earlier process, and whether each is approved.
    `was_prompted`: whether the agent may have had the message already."""
    calls = lines(known)
    if not was_prompted and not calls:
        return message
    told = ["Your process ended while you were at work, and was started again."]
    if calls:
        told += [
            "Whatever the history of this session says, this is known of the calls that you asked permission for:",
            *calls,
        ]
    return "\n".join([*told, "Go on with what you were asked:", "", message])


def decided(known: Iterable[tuple[Asked, bool]]) -> str:
    """Return the prompt that tells decisions after a turn."""
    return "\n".join(["This was decided on calls for which you had asked permission:", *lines(known), "Go on."])


def begun_anew(history: Sequence[Message], prompt: str) -> str:
    """Return a prompt for a new session that takes the place of one that could not be opened again."""
    text = "\n".join(f"[{each.kind}] {cut(each.text, LONGEST_CHARACTERS)}" for each in history)
    if len(text) > SUMMARY_CHARACTERS:
        text = f"(the beginning is left out)\n{text[-SUMMARY_CHARACTERS:]}"
    said = ["This is what was said in it:", "", text, "", "It goes on with this:"] if text else ["It was about this:"]
    return "\n".join(
        ["The session in which you worked could not be opened again; this is a new one.", *said, "", prompt]
    )


def lines(known: Iterable[tuple[Asked, bool]]) -> list[str]:
    return [f"- {call_text(asked)}: {_state(asked, is_approved)}" for asked, is_approved in known]


def call_text(asked: Asked) -> str:
    if asked.form is not None:
        return f"your question {cut(str(asked.given['message']), LONGEST_CHARACTERS)!r}"
    told = asked.given
    if asked.ids:  # an agent that makes the call again gives it other ones
        told = {name: value for name, value in told.items() if name not in asked.ids}
    given = f" {title!r}" if (title := title_of(told, asked.arguments)) is not None else ""
    if told is not None:
        given = f" {canonical_json(told).decode()}"
    return f"{asked.tool.rpartition('.')[2]}{cut(given, LONGEST_CHARACTERS)}"


def _state(asked: Asked, is_approved: bool) -> str:
    if asked.answer is not None:
        return f"a person has answered: {cut(canonical_json(asked.answer).decode(), LONGEST_CHARACTERS)}"
    match asked.ended:
        case "denied":
            return f"{cut(asked.content, LONGEST_CHARACTERS)}; it did not run."
        case "interrupted":
            return "lost; it may or may not have run. Look before you make it again: permission is asked again."
        case None if is_approved:
            return "approved, and not run yet. Make exactly this call again: it is allowed once."
        case None:
            return "still waits for a person. Make exactly this call again if you need it: it waits on."
        case "error":
            return f"it had ended with an error: {cut(asked.content, LONGEST_CHARACTERS)}"
        case kind:
            return f"it had ended ({kind})."
