"""One request of an agent in one attempt: what is saved of it, the message that waits for its answer, and its state.

A person may decide it as long as it is undecided. It is unspent until the agent has an answer, or is to have none.
"""

import anyio

from supervisor.agents.acp.conversation import Incoming
from supervisor.agents.acp.permissions import (
    DIFF,
    DIGEST,
    OTHERS,
    PLACES,
    WORDS,
    Permission,
    allowing,
    is_same,
    option_choices,
    title_of,
)
from supervisor.agents.acp.saved import Asked
from supervisor.agents.open_requests import OpenRequest
from supervisor.core.ids import canonical_json


class Request(OpenRequest[Asked, Incoming]):
    """One request in this attempt. Its message is None if it is of an earlier process."""

    def __init__(self, asked: Asked, message: Incoming | None = None) -> None:
        super().__init__(asked, message)
        self.told_in: int | None = None
        """The turn whose prompt told the agent what was decided."""
        self.is_withdrawn = asked.is_dropped
        self.scope = anyio.CancelScope()

    @property
    def is_decided(self) -> bool:
        return self.is_approved or self.asked.ended is not None

    @property
    def is_undecided(self) -> bool:
        """Whether a person may still decide it."""
        return not self.is_decided and not self.is_withdrawn

    @property
    def is_unspent(self) -> bool:
        """Whether a person may still decide it, or has approved it and the agent has not been answered."""
        is_answered = self.message is not None and self.message.is_answered
        return self.asked.ended is None and not self.is_withdrawn and not is_answered

    def is_for(self, permission: Permission) -> bool:
        """Whether a message with this permission may be given to it: it is for the same call."""
        asked = self.asked
        is_open = asked.ended in (None, "denied") or asked.answer is not None
        return is_open and not self.is_withdrawn and is_same(asked.tool, asked.given, permission, asked.seen)


def asked_for(number: int, permission: Permission) -> Asked:
    named = option_choices(permission.options) if permission.form is None and permission.is_question else {}
    return Asked(
        number=number,
        tool=permission.tool,
        given=permission.given,
        arguments=permission.called_with,
        because=permission.because,
        diff=permission.diff,
        form=permission.form,
        ids=permission.ids,
        seen=permission.seen,
        choices=tuple(named),
        allowing=tuple(name for name, option in named.items() if option.kind.startswith("allow")),
    )


def option_for(asked: Asked, permission: Permission) -> str | None:
    """Return the id of the option that a person chose, or else of the one that allows once."""
    if asked.choice is None:
        return allowing(permission.options)
    found = option_choices(permission.options).get(asked.choice)
    return None if found is None else found.id


def question_of(asked: Asked) -> str:
    title = title_of(asked.given, asked.arguments) or asked.tool
    given = "" if asked.given is None else f"\n{canonical_json(asked.given).decode()}"
    said = [asked.arguments.get(name) for name in (WORDS, DIFF, PLACES, OTHERS, DIGEST)]
    shown = [asked.because] if DIGEST not in asked.arguments or asked.given is not None else said
    words = "".join(f"\n{text}" for text in shown if text)
    return f"The agent asks, in its own words: {title}{words}{given}"
