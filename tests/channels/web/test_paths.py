"""Every path, and paths that do not exist: the answers with a login and without one."""

import anyio
import pytest
from sites import HOST, world
from starlette.requests import Request

from supervisor.channels.web.border import GONE_SECONDS, PATIENCE_SECONDS, Border
from supervisor.channels.web.bounds import Bound
from supervisor.channels.web.login import read_form
from supervisor.channels.web.pages.routes import PAGES
from supervisor.channels.web.rendering import ASSETS
from supervisor.channels.web.table import endpoints

pytestmark = pytest.mark.anyio
PUBLIC = {"/health", "/ready", "/login", *(f"/static/{name}" for name in ASSETS)}
"""Paths without a login: the probes, and the login page with its style."""
STRANGE = [
    "/logout",
    "/nowhere",
    "/health/",
    "//health",
    "/favicon.ico",
    "/channels/slack/requests",
    "/static/",
    "/static/auth.py",
    "/static/inbox.js%00",
    "/static/%2e%2e/auth.py",
    "/static/..%2fauth.py",
    "/static/inbox.css/../../auth.py",
]
PATHS = sorted({*PUBLIC, *(each.path for each in endpoints()), *(path for _, path, _ in PAGES), *STRANGE})


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "TRACE", "BREW"])
async def test_without_a_token_every_path_asks_for_one(method):
    """401 or the page's login, whatever there is at a path or not; nothing else is told, and nothing is a fault."""
    told = set()
    async with world() as here, here.client() as client:
        for path in PATHS:
            answer = await client.request(method, path.replace("{id}", "x"))
            if answer.status_code == 200:
                told.add(path)
            elif answer.status_code == 303:
                assert answer.headers["location"].startswith("/login")
            else:
                assert answer.status_code == 401, path
                assert answer.headers["content-type"] == "application/problem+json"
    assert told <= PUBLIC if method in ("GET", "HEAD") else told <= {"/login"}
    assert method not in ("GET", "HEAD") or told == PUBLIC


async def test_every_error_is_a_problem_that_says_what_there_is():
    """RFC 9457 for 404 and 405; Allow names what the path can do, and all of that it can."""
    async with world() as here, here.client("olga") as client:
        for path in PATHS:
            answer = await client.request("BREW", path.replace("{id}", "x"))
            assert answer.headers["content-type"] == "application/problem+json", path
            assert answer.json()["status"] == answer.status_code
            if answer.status_code == 405:
                assert {"GET", "POST", "DELETE"} & set(answer.headers["allow"].split(", "))
                is_stream = path.endswith("/events")
                assert ("GET" in answer.headers["allow"]) == ("HEAD" in answer.headers["allow"] or is_stream)
            else:
                assert answer.status_code == 404


async def test_every_answer_tells_browsers_what_not_to_do():
    """Not to guess what it is, not to frame it, not to keep it; pages, documents and problems alike."""
    async with world() as here, here.client("olga") as client:
        for path in ("/", "/login", "/health", "/api/sessions", "/nowhere"):
            headers = (await client.get(path)).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert headers["referrer-policy"] in ("no-referrer", "same-origin")
            assert headers["cache-control"] == "no-store"
            assert "frame-ancestors 'none'" in headers["content-security-policy"]


async def test_an_answer_that_fails_in_the_middle_does_not_begin_again():
    """What was sent is sent; the fault is in the log, and no second answer follows in the same one."""
    said = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise ValueError

    async def send(message):
        said.append(message["type"])

    scope = {"type": "http", "method": "GET", "path": "/", "headers": [(b"host", HOST.encode())]}
    await Border(app, ["127.0.0.1"], lambda *_: None, Bound("requests", 1, ""), any_address=False)(scope, None, send)
    assert said == ["http.response.start", "http.response.body"]


@pytest.fixture
def told(caplog):
    """What a border answers to one who speaks as `receive` does, and what it says of that in the log."""

    async def tell(receive):
        async def app(scope, receive, send):
            await read_form(Request(scope, receive))

        async def send(message):
            said.append(message)

        said = []
        scope = {"type": "http", "method": "POST", "path": "/login", "headers": [(b"host", HOST.encode())]}
        border = Border(app, ["127.0.0.1"], lambda *_: None, Bound("requests", 1, ""), any_address=False)
        await border(scope, receive, send)
        return said[0]["status"], caplog.records

    return tell


class TestABody:
    """On the virtual clock."""

    @pytest.fixture
    def anyio_backend(self, virtual_backend):
        return virtual_backend

    async def test_one_that_comes_drop_by_drop_is_not_waited_for(self, told):
        """Slow loris: however steadily it drips, the whole of it has one bound; and it is no fault of ours."""
        began = anyio.current_time()

        async def drop():
            await anyio.sleep(1)
            return {"type": "http.request", "body": b"x", "more_body": True}

        assert await told(drop) == (408, [])
        assert anyio.current_time() - began == pytest.approx(PATIENCE_SECONDS, abs=GONE_SECONDS)

    async def test_a_client_that_goes_is_no_fault(self, told):
        """Whoever goes in the middle of a body writes nothing into our log."""

        async def gone():
            return {"type": "http.disconnect"}

        assert await told(gone) == (400, [])
