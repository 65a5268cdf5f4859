"""Questions of an agent to a person (`elicitation/create`): a message, and a form of plain values. Pure.

They take the way of permission requests: saved, asked in a branch of their own, answered once, and asked again after a
restart. The person's answer is the content of `accept`; a denial or an expiry is `decline`; our cancel is `cancel`.

Only forms of a session are offered to agents. A page to which an agent sends a person (mode `url`) is refused: what
happens there would not be seen here.
"""

from collections.abc import Mapping
from typing import Any, Final

from supervisor.agents.acp.permissions import Permission
from supervisor.agents.question_forms import parts_of
from supervisor.core.errors import InvalidInput

METHOD: Final = "elicitation/create"
CAPABILITY: Final[Mapping[str, Any]] = {"form": {}}


def read_question(agent: str, params: Mapping[str, Any]) -> Permission:
    """Return a question as a request. Raises InvalidInput for one that cannot be asked."""
    if params.get("mode", "form") != "form" or not isinstance(params.get("sessionId"), str):
        raise InvalidInput("this client asks people by forms of a session only")
    form = params.get("requestedSchema")
    if not isinstance(form, Mapping):
        raise InvalidInput("a form has a requestedSchema")
    parts_of(form)
    given = {"message": params["message"], "requestedSchema": form}
    return Permission(
        call=str(params.get("toolCallId") or ""),
        tool=f"{agent}.question",
        given=given,
        arguments={},
        options=(),
        form=dict(form),
    )
