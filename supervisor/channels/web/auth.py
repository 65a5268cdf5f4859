"""Authenticates requests: by a bearer token, or by the cookie of a login.

Rules
- The server keeps no cookies. A cookie names the person and its expiry, signed with a key made of the store's secret
  and the hash of the token of the login. So it survives a restart, and ends with its token.
- The server keeps only what ended early: logins that were signed out, and tokens that were revoked (revocations.py).
- A browser sends cookies by itself, so a cookie does not prove that the person wanted the request. It sends them to
  every port of a host, so a cookie does not even prove that it comes from our pages: another server that the person
  looks at has it, too. A request that changes something under a cookie also needs our Origin and a CSRF token. That
  token is given once, in the fragment of the redirect that ends a login, and stands in no page, which the cookie alone
  could read. Our script keeps it for our origin, port included, and sends it.
- A valid token is always accepted, even if other clients fail from the same address: all clients of a proxy share one
  address. Tokens are too long to be guessed, so failures need no lock. After many failures from one address, a further
  one gets 429 and is not logged.
"""

import base64
import hmac
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from supervisor.channels.web.problems import Problem
from supervisor.channels.web.revocations import Revocation, Revocations
from supervisor.core.approvals.people import People, Person, TokenHash
from supervisor.system.logs import FactLog

log = FactLog(__name__)

LOGIN_LASTS: Final = timedelta(days=7)
CSRF_HEADER: Final = "x-csrf-token"
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
FAILURES: Final = 10
"""Failed logins from one address that are logged within FAILURES_LAST."""
FAILURES_LAST: Final = timedelta(minutes=1)


class Identity(msgspec.Struct, frozen=True):
    """The person who makes a request, and until when their credential is valid (None: for ever). With a cookie: `csrf`,
    which our script sends with each change, and `login`, the cookie's nonce. `token`: the hash of the token that they
    show, or logged in with."""

    person: Person
    until: datetime | None
    token: str
    login: str | None = None
    csrf: str | None = None


class _Claims(msgspec.Struct, frozen=True, array_like=True):
    """The content of a cookie."""

    name: str
    until: int
    nonce: str


def read_clock() -> datetime:
    return datetime.now(UTC)


class Guard:
    """`secret`: the store's own, 32 random bytes. `public_url`: where browsers see us, if not where they ask. `cookie`:
    its name. `now`: reads the wall clock."""

    most_addresses: int = 10_000
    """The most addresses whose failures are remembered; the one without a failure for longest is forgotten first."""

    def __init__(
        self,
        people: People,
        secret: bytes,
        public_url: str | None,
        cookie: str,
        revocations: Revocations | None = None,
        now: Callable[[], datetime] = read_clock,
    ) -> None:
        self.people = people
        self._now = now
        self.revocations = revocations if revocations is not None else Revocations()
        self.cookie = cookie
        self._public_origin = None if public_url is None else _origin(public_url)
        self._secret = secret
        self._failures: OrderedDict[str, list[datetime]] = OrderedDict()

    def identify(self, request: Request, *, scrapes: bool = False) -> Identity | None:
        """Return who makes a request, None without a valid credential. `scrapes`: whether it is for a scraper, too.
        Raises Problem: 401, 403, 429."""
        identity = self._identify(request)
        if identity is not None and not scrapes:
            self.refuse_scraper(identity.person)
        return identity

    @staticmethod
    def refuse_scraper(person: Person) -> None:
        """Refuse what is not for programs that read the metrics. Raises Problem 403."""
        if person.is_scraper:
            raise Problem(403, "this token is for /metrics alone: use one of a person who is no scraper")

    def _identify(self, request: Request) -> Identity | None:
        shown = request.headers.get("authorization")
        if shown is not None:
            scheme, _, token = shown.partition(" ")
            if scheme.lower() != "bearer":
                raise _unknown("show a token: Authorization: Bearer TOKEN")
            person, known = self.check_token(request, token.strip())
            return Identity(person, known.expires_at, known.hash)
        if (cookie := request.cookies.get(self.cookie)) is None:
            return None
        return self._read_cookie(cookie)

    def demand(self, request: Request, *, scrapes: bool = False) -> Identity:
        """Return who makes a request. Raises Problem: 401, 403, 429."""
        identity = self.identify(request, scrapes=scrapes)
        if identity is None:
            raise _unknown("who are you? Authorization: Bearer TOKEN, or log in on the page")
        return identity

    def still_counts(self, identity: Identity) -> bool:
        """Whether a credential is still valid: neither expired nor revoked."""
        if identity.until is not None and self._now() >= identity.until:
            return False
        return identity.token not in self.revocations and identity.login not in self.revocations

    def check_again(self, identity: Identity) -> None:
        """Refuse a credential that has ended while the request arrived. Raises Problem 401."""
        if not self.still_counts(identity):
            raise _unknown("this token or login has just ended")

    def check_csrf(self, request: Request, identity: Identity, shown: str | None = None) -> None:
        """Refuse a cookie without its CSRF token. `shown`: the form's; default: the header's. Raises Problem 403."""
        if identity.csrf is None or request.method in SAFE_METHODS:
            return
        self.check_origin(request)
        shown = request.headers.get(CSRF_HEADER, "") if shown is None else shown
        if not hmac.compare_digest(identity.csrf.encode(), shown.encode()):
            raise Problem(
                403, "this browser may only read here: its key to decide is missing or old; sign in again at /login"
            )

    def check_origin(self, request: Request) -> None:
        """Refuse requests from pages of other sites; the border has checked the Host. Raises Problem 403."""
        host = request.headers.get("host", "")
        if request.headers.get("origin", "null") not in (f"http://{host}", f"https://{host}", self._public_origin):
            raise Problem(403, "this comes from another site's page; use the pages of this server, or a bearer token")

    def check_token(self, request: Request, token: str) -> tuple[Person, TokenHash]:
        """Return the person whose token it is. Raises Problem: 401; 429 after too many failures."""
        now = self._now()
        found = self.people.find_by_token(token, now)
        if found is None or found[1].hash in self.revocations:
            self._note_failure(request.client.host if request.client else "", now)
            raise _unknown("this token is not known here, has expired, or was revoked")
        return found

    def _note_failure(self, address: str, now: datetime) -> None:
        """Count and log a failure. Raises Problem 429 instead if there were too many."""
        recent = [at for at in self._failures.pop(address, ()) if at > now - FAILURES_LAST]
        self._failures[address] = recent
        if len(recent) >= FAILURES:
            wait = int((recent[0] + FAILURES_LAST - now).total_seconds()) + 1
            detail = f"too many failed logins from here; try again in {wait} s"
            raise Problem(429, detail, headers={"retry-after": str(wait)})
        recent.append(now)
        while len(self._failures) > self.most_addresses:
            self._failures.popitem(last=False)
        log.warning("login.refused", address=address)

    # -- cookies -----------------------------------------------------------------------------------------------------

    def log_in(self, response: Response, person: Person, token: TokenHash, nonce: str, *, is_secure: bool) -> str:
        """Set the cookie of a login on a response, and return its CSRF token. `nonce`: random, so that two logins have
        different ones."""
        until = self._now() + LOGIN_LASTS
        if token.expires_at is not None:
            until = min(until, token.expires_at)
        body = msgspec.json.encode(_Claims(person.name, int(until.timestamp()), nonce))
        signature = self._sign(token, b"cookie", body)
        value = f"{_base64(body)}.{_base64(signature)}"
        age = int((until - self._now()).total_seconds())
        response.set_cookie(self.cookie, value, age, httponly=True, secure=is_secure, samesite="lax")
        return _base64(self._sign(token, b"csrf", body))

    async def log_out(self, response: Response, identity: Identity | None) -> None:
        """End a login, if it is valid, and delete its cookie by the response."""
        if identity is not None and identity.login is not None:
            by = identity.person.name
            ended = Revocation(login=identity.login, until=identity.until, at=self._now(), by=by)
            await self.revocations.add_soon(ended)
        response.delete_cookie(self.cookie, httponly=True, samesite="lax")

    def _read_cookie(self, cookie: str) -> Identity | None:
        body, _, signature = cookie.partition(".")
        try:
            raw, shown = _unbase64(body), _unbase64(signature)
            claims = msgspec.json.decode(raw, type=_Claims)
        except (ValueError, msgspec.MsgspecError, RecursionError):
            return None
        now = self._now()
        person = self.people.find(claims.name)
        for token in person.tokens if person is not None else ():
            if token.is_valid(now) and hmac.compare_digest(self._sign(token, b"cookie", raw), shown):
                until = datetime.fromtimestamp(claims.until, UTC)
                if now >= until:
                    return None
                assert person is not None
                until = min(until, token.expires_at or until)
                csrf = _base64(self._sign(token, b"csrf", raw))
                identity = Identity(person, until, token.hash, claims.nonce, csrf)
                return identity if self.still_counts(identity) else None
        return None

    def _sign(self, token: TokenHash, purpose: bytes, body: bytes) -> bytes:
        key = hmac.digest(self._secret, purpose + token.hash.encode(), "sha256")
        return hmac.digest(key, body, "sha256")


def _origin(url: str) -> str:
    """Return the origin of an address as browsers write it."""
    parts = urlsplit(url.lower())
    standing = {"http": ":80", "https": ":443"}[parts.scheme]
    return f"{parts.scheme}://{parts.netloc.removesuffix(standing)}"


def _unknown(detail: str) -> Problem:
    return Problem(401, detail, headers={"www-authenticate": "Bearer"})


def _base64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _unbase64(text: str) -> bytes:
    return base64.b64decode(text.encode() + b"=" * (-len(text) % 4), altchars=b"-_", validate=True)
