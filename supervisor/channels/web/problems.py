"""Errors over HTTP: every error is an RFC 9457 problem document.

Rules
- One table gives the status of each of the package's errors. Any other exception is a fault of the supervisor: 500,
  with a log entry and no details in the answer.
- `code` is for programs: the exception's name in snake case, or the status's name if there is no exception.
- A problem says what to do next, as the errors of the package do.
"""

from http import HTTPStatus
from typing import Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from supervisor.core.errors import (
    InvalidInput,
    NotAuthenticated,
    NotEntitled,
    NotFound,
    RunBlocked,
    ServerError,
    ServerUnavailable,
    SessionConflict,
    StoreDied,
    StoreRefused,
    StoreUnreadable,
    SupervisorError,
    TreeOwned,
    code_of,
)
from supervisor.seam.store import StoreAway
from supervisor.system.logs import FactLog

log = FactLog(__name__)

MEDIA_TYPE: Final = "application/problem+json"
DECISION_STATUS: Final = {
    "accepted": 200,
    "already": 200,
    "recorded": 202,
    "counted": 202,
    "unseen": 202,
    "unknown": 404,
    "conflict": 409,
    "closed": 410,
    "refused": 403,
}
"""The status of the answer to a decision, by `DecisionResult.kind`, over HTTP and on pages."""
_STATUS: Final[dict[type[SupervisorError], int]] = {
    InvalidInput: 422,
    NotFound: 404,
    SessionConflict: 409,
    TreeOwned: 409,
    RunBlocked: 409,
    NotEntitled: 403,
    NotAuthenticated: 401,
    StoreRefused: 507,
    StoreDied: 503,
    StoreUnreadable: 503,
    ServerUnavailable: 503,
    ServerError: 502,
}
_MEANT: Final[dict[int, type[SupervisorError]]] = {
    400: InvalidInput,
    401: NotAuthenticated,
    403: NotEntitled,
    404: NotFound,
    422: InvalidInput,
}
"""What a status means where a request is refused before anything of the package was asked."""


class Problem(Exception):
    """An answer that is an error. `kind` is the exception that it stands for, if not the usual one of its status;
    `members` are added to the document, for programs."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        kind: type[SupervisorError] | None = None,
        headers: dict[str, str] | None = None,
        members: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.kind = kind or _MEANT.get(status)
        self.headers = headers or {}
        self.members = members or {}

    @property
    def document(self) -> dict[str, Any]:
        title = HTTPStatus(self.status).phrase
        code = title.lower().replace(" ", "_").replace("-", "_") if self.kind is None else code_of(self.kind)
        return {
            "type": "about:blank",
            "title": title,
            "status": self.status,
            "code": code,
            "detail": self.detail,
            **self.members,
        }

    def response(self) -> Response:
        return Response(msgspec.json.encode(self.document), self.status, self.headers, MEDIA_TYPE)


def problem_of(error: Exception) -> Problem:
    """Return the answer for an error; an unexpected error is logged."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, HTTPException):
        return Problem(error.status_code, error.detail, headers=dict(error.headers or {}))
    if isinstance(error, ClientDisconnect):
        return Problem(400, "the client went before it had said what it wanted")  # no client reads it
    if isinstance(error, StoreAway):  # soon it may answer again; a refusal by a full disk stays
        return Problem(503, str(error), kind=StoreRefused, headers={"retry-after": "1"})
    for kind, status in _STATUS.items():
        if isinstance(error, kind):
            return Problem(status, str(error), kind=type(error), members=_members(error))
    if type(error) is SupervisorError:  # as things are now; what to do about it is in its text
        return Problem(409, str(error), kind=SupervisorError)
    log.error("request.failed", error=repr(error))
    return Problem(500, "this is a fault of the supervisor, and it is in its log; nothing was lost")


def _members(error: Exception) -> dict[str, Any]:
    """Return an exception's attributes, for programs."""
    match error:
        case TreeOwned():
            return {"root": error.root, "owner": error.owner}
        case RunBlocked():
            return {"session": error.session, "block": msgspec.to_builtins(error.block)}
        case _:
            return {}
