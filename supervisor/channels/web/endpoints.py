"""One table defines the HTTP API: path, method, role, types in and out. The routes, the checks before each handler, and
the OpenAPI document are derived from it.

Rules
- A handler gets typed values: a request that does not parse gets 400, one that does not fit its types gets 422.
- Every endpoint except the open ones needs an authenticated person. What that person may do is checked by the command
  alone, in the step that does it. The table names the command only for the OpenAPI document, which says its role.
- Each path has one route with all its methods, so that 405 names them correctly.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from supervisor.channels.web.auth import Identity
from supervisor.channels.web.problems import Problem
from supervisor.channels.web.state import Site
from supervisor.core.approvals.people import Person
from supervisor.core.encoding import repeated_key
from supervisor.core.values import Approval
from supervisor.seam.commands import LAWS, Command
from supervisor.seam.runs import Page
from supervisor.seam.supervisor import Supervisor

T = TypeVar("T")

Need = Literal["none", "scraper", "person"]
"""Whose request an endpoint takes: of every client even without a token, of every authenticated person and of scrapers,
or of every authenticated person."""


class Nothing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No query, no body."""


class Endpoint(msgspec.Struct, frozen=True, kw_only=True):
    """One method of one path. `answers`: status -> type of the document, None for no JSON. `command`: what it gives to
    the Supervisor, whose law says for whom it is; None: it only looks."""

    method: str
    path: str
    name: str
    summary: str
    handle: "Callable[[Call], Awaitable[Response]]"
    answers: dict[int, Any]
    need: Need = "person"
    command: type[Command[Any]] | None = None
    query: type[msgspec.Struct] = Nothing
    body: type[msgspec.Struct] | None = None
    may_omit_body: bool = False
    decides: Literal["approval", "session"] | None = None
    """What the path names, if the endpoint decides approvals: a refusal is then journaled."""
    media_type: str = "application/json"

    @property
    def is_for_operators(self) -> bool:
        return self.command is not None and LAWS[self.command].role == "operator"

    @property
    def is_stream(self) -> bool:
        return self.media_type == "text/event-stream"


Handle = Callable[["Call"], Awaitable[Response]]


class Endpoints(list[Endpoint]):
    """A part of the table, in the order of its handlers."""

    def add(self, where: str, answers: dict[int, Any], **more: Any) -> Callable[[Handle], Handle]:
        """Make a handler an endpoint: its name in camel case is that of the operation, and the first paragraph of its
        docstring the summary. `where`: method and path; `more`: further fields of the Endpoint."""

        def add(handle: Handle) -> Handle:
            (method, path), (verb, *of) = where.split(" "), handle.__name__.split("_")
            about = " ".join((handle.__doc__ or "").partition("\n\n")[0].split()).removesuffix(".")
            name = verb + "".join(map(str.capitalize, of))
            self.append(
                Endpoint(method=method, path=path, name=name, summary=about, handle=handle, answers=answers, **more)
            )
            return handle

        return add


class Call:
    """A request that has passed every check of the table."""

    def __init__(self, site: Site, request: Request, identity: Identity | None, query: Any, body: Any) -> None:
        self.site = site
        self.request = request
        self.query = query
        self.body = body
        self._identity = identity

    @property
    def supervisor(self) -> Supervisor:
        return self.site.supervisor

    @property
    def person(self) -> Person:
        assert self._identity is not None, "the table admits only authenticated people here"
        return self._identity.person

    def still_counts(self) -> bool:
        """Whether the credential of the request is still valid."""
        return self._identity is None or self.site.guard.still_counts(self._identity)

    def path(self, name: str) -> str:
        return str(self.request.path_params[name])

    def show(self, *approvals: Approval) -> None:
        """Note that the answer shows these approvals to the person who asks."""
        self.site.shown.note(self.person.name, approvals)


class Resource:
    """The ASGI app of one path."""

    def __init__(self, site: Site, endpoints: Sequence[Endpoint]) -> None:
        self._site = site
        self._endpoints: dict[str, Endpoint] = {endpoint.method: endpoint for endpoint in endpoints}
        if "GET" in self._endpoints and not self._endpoints["GET"].is_stream:
            self._endpoints["HEAD"] = self._endpoints["GET"]  # the server leaves the body out

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        endpoint = self._endpoints.get(request.method)
        if endpoint is None:
            raise HTTPException(405, headers={"Allow": ", ".join(self._endpoints)})
        identity = await self._admit(request, endpoint)
        query = _query(request, endpoint.query)
        body = await _body(request, endpoint)
        if identity is not None:
            self._site.guard.check_again(identity)
        response = await endpoint.handle(Call(self._site, request, identity, query, body))
        await response(scope, receive, send)

    async def _admit(self, request: Request, endpoint: Endpoint) -> Identity | None:
        if endpoint.need == "none":
            return None
        guard = self._site.guard
        identity = guard.demand(request, scrapes=endpoint.need == "scraper")
        try:
            guard.check_csrf(request, identity)
        except Problem as problem:
            await self._note(request, endpoint, identity, problem)
            raise
        return identity

    async def _note(self, request: Request, endpoint: Endpoint, identity: Identity, problem: Problem) -> None:
        """Keep in the audit trail that a decision was refused (A15)."""
        if endpoint.decides is None:
            return
        supervisor, named = self._site.supervisor, str(request.path_params["id"])
        asked = [named]
        if endpoint.decides == "session":
            pending = await supervisor.find_approvals(limit=None)
            asked = [each.id for each in pending if named in (each.session, each.root_session)]
        for approval in asked:
            await supervisor.note_refusal(approval, by=identity.person.name, reason=problem.detail, channel="web")


def json_document(value: Any, status: int = 200) -> Response:
    """Answer with a JSON document."""
    return Response(msgspec.json.encode(value), status, media_type="application/json")


def page_document(page: Page[T], document_of: Callable[[T], Any]) -> Response:
    """Answer with a page of a list."""
    return json_document({"items": [document_of(item) for item in page], "next": page.next, "cursor": page.cursor})


def read_run_number(text: str) -> int:
    """Return the number of a run that a path or a form names; 0, which no run has, if it names none."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 10 else 0


async def cursor_of_now(supervisor: Supervisor) -> str:
    """Return the cursor of now. Every list has one; this list is the shortest."""
    return (await supervisor.find_owners()).cursor


def _query(request: Request, kind: type[msgspec.Struct]) -> Any:
    given = dict(request.query_params.multi_items())
    if len(given) < len(request.query_params.multi_items()):
        raise Problem(422, "each parameter of the query may be given once")
    try:
        return msgspec.convert(given, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(422, f"the query does not fit: {error}") from None


async def _body(request: Request, endpoint: Endpoint) -> Any:
    if endpoint.body is None:
        return None
    raw = await request.body()
    if not raw and endpoint.may_omit_body:
        raw = b"{}"
    try:
        value = msgspec.json.decode(raw)  # first as a whole: what does not fit may end in what is no JSON
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Problem(400, f"the body is no JSON: {error}") from None
    except RecursionError:
        raise Problem(400, "the body is no JSON that can be read: it is nested too deeply") from None
    if (key := repeated_key(raw, value)) is not None:
        raise Problem(400, f"the body says two things: the key {key!r} stands twice in one object")
    try:
        return msgspec.convert(value, endpoint.body)
    except msgspec.ValidationError as error:
        raise Problem(422, f"the body does not fit: {error}") from None
