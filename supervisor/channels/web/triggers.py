"""Triggers: signed requests by which other programs start agents, `POST /triggers/NAME` (R11).

Rules
- The signature is checked before anything of the request is read. `standard` is Standard Webhooks
  (standardwebhooks.com): the id, the time and the body are signed, and a request is refused five minutes after its
  time. `github` is GitHub's X-Hub-Signature-256: the body alone is signed.
- The session's id is made of the trigger's name and of what is signed: the id, or the body's digest. So a delivery that
  is sent again finds its session, starts nothing, and gets the same answer. A prune keeps the id (plans/deliveries.py).
- The body is the agent's input: JSON, or the text of the body if the agent takes that.
- Anyone can send unsigned requests. The log tells one of them, until a signed one comes.
"""

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from supervisor.channels.web.bounds import read_body
from supervisor.channels.web.problems import Problem
from supervisor.channels.web.state import Site
from supervisor.channels.web.webhooks import LARGEST_BYTES
from supervisor.core.encoding import from_json
from supervisor.core.errors import InvalidInput, NotFound, SessionConflict, TreeOwned
from supervisor.core.ids import id_from
from supervisor.core.schedules import OF_TRIGGER, Signed
from supervisor.seam.supervisor import Supervisor
from supervisor.system.logs import FactLog

log = FactLog(__name__)

TOLERANCE_SECONDS: Final = 300
_LONGEST_ID_CHARACTERS: Final = 256
_TIME: Final = re.compile(r"[0-9]{1,12}")
_LIKE_A_TIME: Final = re.compile(rb"[0-9]+\.")
"""How no signed body may begin: id, time and body are joined by dots, and could be cut in another place."""


class Trigger:
    """`signed`: how its requests are signed. `secret`: as the sender has it; "whsec_" and base64 for `standard`."""

    def __init__(self, name: str, agent: str, signed: Signed, secret: str) -> None:
        self.name = name
        self.agent = agent
        self._signed = signed
        self._is_told = False
        is_standard = signed == "standard"
        self._key = base64.b64decode(secret.removeprefix("whsec_")) if is_standard else secret.encode()

    def __repr__(self) -> str:
        return f"<trigger {self.name}>"  # never the secret

    def find_session(self, headers: Mapping[str, str], body: bytes, now: datetime) -> str:
        """Return the id of the session that a request starts. Raises Problem 401 for one that is not signed."""
        signed = self._read_standard if self._signed == "standard" else self._read_github
        if (found := signed(headers, body, now)) is None:
            if not self._is_told:
                log.warning("trigger.refused", trigger=self.name, reason="not signed with its secret, or too old")
            self._is_told = True
            raise Problem(401, f"this request is not signed with the secret of trigger {self.name}, or is too old")
        self._is_told = False
        return id_from(self.name, found)

    def _read_standard(self, headers: Mapping[str, str], body: bytes, now: datetime) -> str | None:
        delivery, time = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
        if not 0 < len(delivery) <= _LONGEST_ID_CHARACTERS or not _TIME.fullmatch(time) or _LIKE_A_TIME.match(body):
            return None
        if abs(now.timestamp() - int(time)) > TOLERANCE_SECONDS:
            return None
        digest = hmac.digest(self._key, b".".join([delivery.encode("latin-1"), time.encode(), body]), "sha256")
        for each in headers.get("webhook-signature", "").split():  # one for each secret that the sender has now
            version, _, shown = each.partition(",")
            with suppress(binascii.Error, ValueError):
                if version == "v1" and hmac.compare_digest(base64.b64decode(shown, validate=True), digest):
                    return f"id {delivery}"
        return None

    def _read_github(self, headers: Mapping[str, str], body: bytes, now: datetime) -> str | None:
        shown = headers.get("x-hub-signature-256", "").encode("latin-1")
        right = b"sha256=" + hmac.new(self._key, body, "sha256").hexdigest().encode()
        return f"sha256 {hashlib.sha256(body).hexdigest()}" if hmac.compare_digest(shown, right) else None

    def is_ping(self, headers: Mapping[str, str]) -> bool:
        """Whether GitHub only asks if somewhere is there, as it does when a webhook is made."""
        return self._signed == "github" and headers.get("x-github-event") == "ping"

    async def start(self, supervisor: Supervisor, session: str, body: bytes) -> None:
        """Start the session of a delivery, unless it is there. Raises InvalidInput for a body that does not fit."""
        with suppress(NotFound):
            await supervisor.get_session(session)
            return
        values = _values_of(body)
        try:
            await self._begin(supervisor, session, *values[:1])
        except InvalidInput:  # nothing was started
            if len(values) < 2:  # there is no other reading
                raise
            try:
                await self._begin(supervisor, session, values[1])
            except InvalidInput as error:
                raise InvalidInput(f"the body does not fit agent {self.agent}: {error}") from None
        log.info("trigger.started", trigger=self.name, session=session)

    async def _begin(self, supervisor: Supervisor, session: str, *given: Any) -> None:
        with suppress(SessionConflict, TreeOwned):  # the same delivery has come twice at once
            await supervisor.start(self.agent, *given, session=session, requester=OF_TRIGGER + self.name)


def _values_of(body: bytes) -> list[Any]:
    """Return what a body may mean, the likeliest first: nothing, JSON, text. Raises InvalidInput for a body that is
    none of these."""
    if not body.strip():
        return []
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise InvalidInput("the body is not UTF-8 text: send JSON, as application/json") from None
    try:
        value = from_json(text, Any, "the body")
    except InvalidInput:
        return [text]
    return [value] if isinstance(value, str) else [value, text]


def trigger_routes(site: Site, triggers: Iterable[Trigger]) -> list[BaseRoute]:
    return [Route(f"/triggers/{each.name}", _receiver(site, each), methods=["POST"]) for each in triggers]


def _receiver(site: Site, trigger: Trigger) -> Callable[[Request], Awaitable[Response]]:
    async def receive(request: Request) -> Response:
        body = await read_body(request, LARGEST_BYTES)
        session = trigger.find_session(request.headers, body, datetime.now(UTC))
        if trigger.is_ping(request.headers):
            return JSONResponse({"session": None})
        await trigger.start(site.supervisor, session, body)
        return JSONResponse({"session": session}, 202)

    return receive
