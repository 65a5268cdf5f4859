"""What a server's answers mean: JSON documents, problems (RFC 9457), and answers of something that is no supervisor.

    a problem with the name of an exception     that exception, as if the supervisor were here
    502, 503, 504, 408, 429                     ServerUnavailable: the request may be sent again
    a redirect, HTML, anything else             ServerMismatch: this address is not that of a supervisor

No text of an answer is trusted to be free of the token, since a proxy may repeat what it was sent: `Answer` never holds
the headers of the request, and of a redirect only the host is shown.
"""

from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from supervisor.core.blocking import Block
from supervisor.core.errors import (
    CursorUnknown,
    InvalidInput,
    LimitExceeded,
    NotAuthenticated,
    NotEntitled,
    NotFound,
    RunBlocked,
    ServerError,
    ServerMismatch,
    ServerUnavailable,
    SessionConflict,
    StoreDied,
    StoreRefused,
    StoreUnreadable,
    SupervisorError,
    TreeOwned,
    UnknownAgent,
    code_of,
)

PROBLEM: Final = "application/problem+json"
DOCUMENT: Final = "application/json"
STREAM: Final = "text/event-stream"
_LATER: Final = frozenset({408, 429, 502, 503, 504})
"""The server, or a proxy before it, cannot answer now."""
_NOT_DONE: Final = frozenset({408, 429, 503})
"""... and a supervisor that says so has not begun what it was asked for."""
_KINDS: Final[dict[str, type[SupervisorError]]] = {
    code_of(kind): kind
    for kind in (
        *(InvalidInput, UnknownAgent, CursorUnknown, NotFound, SessionConflict, NotEntitled, NotAuthenticated),
        *(LimitExceeded, StoreUnreadable, StoreRefused, StoreDied, ServerError, ServerMismatch),
    )
}
"""Those that are made of a text."""


class Answer(NamedTuple):
    """`document`: of a problem, too."""

    status: int
    document: Any
    media_type: str = DOCUMENT
    location: str = ""

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300 and self.media_type in (DOCUMENT, STREAM)


class AnswerTooLarge(ServerMismatch):
    """The server sends more than a client reads of one answer."""

    def __init__(self, where: str, largest: int) -> None:
        super().__init__(f"{where} answers with over {largest} bytes: ask for less at once, if it is a supervisor")


def read_document(body: bytes, media_type: str) -> Any:
    """Decode what an answer says, None for what is no JSON."""
    if media_type not in (DOCUMENT, PROBLEM):
        return None
    try:
        return msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def error_of(answer: Answer, where: str) -> SupervisorError:
    """Return what to raise for an answer that is not good."""
    problem = answer.document if isinstance(answer.document, dict) else {}
    if answer.media_type != PROBLEM or not isinstance(problem.get("code"), str):
        return _no_supervisor(answer, where)
    code, detail = problem["code"], str(problem.get("detail", ""))
    try:
        if code == code_of(TreeOwned):
            return TreeOwned(str(problem["root"]), str(problem["owner"]))
        if code == code_of(RunBlocked):
            return RunBlocked(str(problem["session"]), msgspec.convert(problem["block"], Block))
    except (KeyError, msgspec.ValidationError):
        return ServerMismatch(f"{where} answers {code} without what belongs to it: {detail}")
    if (kind := _KINDS.get(code)) is not None:
        return kind(detail)
    if answer.status in _LATER:
        return ServerUnavailable(f"{where} cannot answer now: {detail}", maybe_done=answer.status not in _NOT_DONE)
    match answer.status:
        case 401:
            return NotAuthenticated(detail)
        case 413:
            return InvalidInput(detail)
        case 500:
            return ServerError(f"{where} has failed: {detail}")
        case _:
            return ServerMismatch(f"{where} refuses this: {detail}")


def _no_supervisor(answer: Answer, where: str) -> SupervisorError:
    if answer.status in _LATER:
        return ServerUnavailable(f"{where} is not reached: a proxy answers {answer.status}", maybe_done=True)
    if 300 <= answer.status < 400:
        to = _host_of(answer.location)
        return ServerMismatch(
            f"{where} redirects{f' to {to}' if to else ''}, and a token is not sent after a redirect: "
            "give the address that the supervisor itself has"
        )
    said = answer.media_type or "nothing"
    return ServerMismatch(
        f"{where} answers {answer.status} with {said}, as no supervisor does: is the address right, or is there a "
        "login page or a proxy before it?"
    )


def _host_of(location: str) -> str:
    """Return the host that a redirect names; nothing if it names none."""
    try:
        return urlsplit(location).netloc.rpartition("@")[2]
    except ValueError:
        return ""
