"""Requests: what is sent again, who the server must be, and where the token goes."""

from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import anyio
import pytest
from wires import Request, answer, greeting, problem, wired

from supervisor.client.addresses import read_address
from supervisor.client.connection import Connection
from supervisor.core.errors import (
    CursorUnknown,
    InvalidInput,
    NotAuthenticated,
    NotFound,
    ServerError,
    ServerMismatch,
    ServerUnavailable,
    StoreDied,
    SupervisorError,
    TreeOwned,
)

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("short_pauses")]
TOKEN = "t0ken-of-olga"
CLOSING = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n\r\n{}"
"""An answer that ends with its connection."""


@asynccontextmanager
async def connected(wire, token=TOKEN, *, patience: float = 5.0):
    connection = Connection(read_address(wire.url), token, patience)
    try:
        await connection.greet()
        yield connection
    finally:
        await connection.leave()


def failing(times: int, then: bytes):
    """Cut the connection so many times before anything is answered."""
    left = [b""] * times

    def handle(request: Request) -> bytes:
        return left.pop() if left else then

    return handle


@pytest.mark.parametrize(("method", "repeats"), [("GET", False), ("POST", True), ("DELETE", True)])
async def test_a_request_that_may_be_repeated_survives_broken_connections(method, repeats):
    """It is sent again, as it was, until there is an answer."""
    async with wired(failing(3, answer({"a": 1}))) as wire, connected(wire) as connection:
        assert await connection.ask(method, "/x", query={"q": True}, body={"b": 2}, repeats=repeats) == {"a": 1}
        assert {(each.path, each.body) for each in wire.said} == {("/x?q=true", b'{"b":2}')}
        assert len(wire.said) == 4


async def test_a_request_that_may_not_be_repeated_is_sent_once():
    """The error says that it may have been done."""
    async with wired(failing(1, answer({}))) as wire, connected(wire) as connection:
        with pytest.raises(ServerUnavailable) as broken:
            await connection.ask("POST", "/x")
        assert broken.value.maybe_done
        assert len(wire.said) == 1


@pytest.mark.parametrize("cut", [b"", problem(503, "service_unavailable"), answer(b"", 502, "text/html")])
async def test_a_request_that_was_not_sent_is_repeated_whatever_it_is(cut):
    """Here the greeting of a new connection fails, before the request itself goes out."""
    async with wired(lambda request: CLOSING) as wire, connected(wire) as connection:
        await connection.ask("POST", "/x")
        greetings = [cut, cut]
        wire.greets = lambda request: greetings.pop() if greetings else greeting()
        assert await connection.ask("POST", "/x") == {}
        assert len(wire.said) == 2
        assert greetings == []


@pytest.mark.parametrize("repeats", [False, True])
async def test_a_server_that_is_busy_has_done_nothing(repeats):
    """So the request is made again, whatever it asks for."""
    busy = [problem(503, "service_unavailable"), problem(429, "too_many_requests")]
    async with wired(lambda request: busy.pop() if busy else answer({"a": 1})) as wire, connected(wire) as connection:
        assert await connection.ask("POST", "/x", repeats=repeats) == {"a": 1}


@pytest.mark.parametrize("lost", [answer(b"", 502, "text/html"), problem(502, "gone"), problem(504, "late")])
async def test_a_proxy_that_lost_its_server_may_have_passed_the_request_on(lost):
    """So it is made again only if that does no harm."""
    given = [lost]
    async with wired(lambda request: given.pop() if given else answer({})) as wire, connected(wire) as connection:
        with pytest.raises(ServerUnavailable) as broken:
            await connection.ask("POST", "/x")
        assert (broken.value.maybe_done, len(wire.said)) == (True, 1)
        given.append(lost)
        assert await connection.ask("POST", "/x", repeats=True) == {}


async def test_a_server_that_does_not_come_back_is_given_up():
    """After `reconnect_timeout`; a read has done nothing, and anything else may have been done."""
    async with wired(failing(10_000, b"")) as wire, connected(wire, patience=0.05) as connection:
        for method, maybe_done in [("GET", False), ("POST", True)]:
            with pytest.raises(ServerUnavailable) as broken:
                await connection.ask(method, "/x", repeats=True)
            assert broken.value.maybe_done == maybe_done


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (problem(404, "not_found"), NotFound),
        (problem(422, "cursor_unknown"), CursorUnknown),
        (problem(503, "store_died"), StoreDied),
        (problem(409, "tree_owned", root="r", owner="process 1"), TreeOwned),
        (problem(409, "tree_owned"), ServerMismatch),
        (problem(500, "internal_server_error"), ServerError),
        (problem(418, "of_a_newer_server"), ServerMismatch),
        (answer(b"<html>Log in</html>", 200, "text/html"), ServerMismatch),
        (answer(b"", 401, "text/html"), ServerMismatch),
        (answer(b"{", 200, "text/plain"), ServerMismatch),
        (answer(b"", 302, "text/html", location="https://u:hidden@elsewhere/login?token=hidden"), ServerMismatch),
        (answer(b"", 302, "text/html", location="https://[no-address"), ServerMismatch),
    ],
)
async def test_an_answer_that_is_no_document_raises_the_error_of_its_status(given, kind):
    """A problem stands for an exception; a redirect and a page are no supervisor's."""
    async with wired(lambda request: given) as wire, connected(wire) as connection:
        with pytest.raises(SupervisorError) as raised:
            await connection.ask("POST", "/x")
        assert type(raised.value) is kind
        assert "hidden" not in str(raised.value)
        assert len(wire.said) == 1  # no redirect is followed


@pytest.mark.parametrize(
    "greets",
    [
        lambda request: greeting(api=2),
        lambda request: greeting(store="t" * 10),
        lambda request: answer({"status": "ok"}),
        lambda request: answer(b"<html>", 200, "text/html"),
        lambda request: greeting(roles="operator"),
    ],
    ids=["version", "store", "other", "page", "shape"],
)
async def test_no_request_reaches_another_server_after_a_break(greets):
    """Each new connection begins with GET /api, and nothing else is sent to what is not the same server."""
    async with wired(failing(1, answer({}))) as wire, connected(wire) as connection:
        wire.greets = greets
        with pytest.raises(ServerMismatch):
            await connection.ask("GET", "/x")
        assert len(wire.said) == 1


async def test_an_idle_connection_that_the_server_has_closed_is_no_way_around_the_greeting():
    """A daemon that is started again between two requests is greeted before the second one."""
    async with wired(lambda request: CLOSING) as wire, connected(wire) as connection:
        await connection.ask("POST", "/x")
        wire.greets = lambda request: greeting(api=7)
        with pytest.raises(ServerMismatch) as refused:
            await connection.ask("POST", "/x")
        assert "7" in str(refused.value)
        assert "1" in str(refused.value)
        assert len(wire.said) == 1


async def test_the_token_is_asked_for_once_more_after_it_was_refused():
    """It may have been renewed just then; the same one again is not tried."""
    tokens = ["old", "old", "new", "new", "new"]

    def handle(request: Request) -> bytes:
        if request.headers["authorization"] != "Bearer new":
            return problem(401, "not_authenticated")
        return answer({"a": 1})

    async with wired(handle) as wire, connected(wire, lambda: tokens.pop(0)) as connection:
        assert await connection.ask("POST", "/x") == {"a": 1}
        tokens = ["bad", "bad"]
        with pytest.raises(NotAuthenticated):
            await connection.ask("POST", "/x")
        assert len(wire.said) == 3


@pytest.mark.parametrize("token", ["", "a b", "a\n", "ä", "a\r\nx: y"])
async def test_a_token_that_no_header_can_hold_is_refused(token):
    """Before anything is sent, and it is not repeated."""
    async with wired() as wire:
        connection = Connection(read_address(wire.url), token, 1)
        with pytest.raises(InvalidInput) as refused:
            await connection.greet()
        await connection.leave()
        assert not token or repr(token) not in str(refused.value)
        assert wire.connections == 0


@pytest.mark.parametrize(
    "handle",
    [
        lambda request: problem(403, "not_entitled", detail=f"you sent {request.headers['authorization']}"),
        lambda request: answer({"x": request.headers["authorization"]}, 400),
        lambda request: b"HTTP/1.1 " + request.headers["authorization"].encode() + b"\r\n\r\n",
        lambda request: b"",
    ],
)
async def test_the_token_is_in_no_error_and_no_repr(handle):
    """Also where what answers repeats it."""
    async with wired(handle) as wire, connected(wire) as connection:
        with pytest.raises(SupervisorError) as raised:
            await connection.ask("POST", "/x")
        assert TOKEN not in f"{raised.value!r} {raised.value} {connection!r} {raised.value.__cause__!r}"


async def test_the_server_clock_is_never_taken_to_be_later_than_it_is():
    """Its `now` was true when it was written, and is older when it is read."""
    ahead = timedelta(hours=3)
    async with wired() as wire:
        wire.greets = lambda request: greeting(now=(datetime.now(UTC) + ahead).isoformat())
        async with connected(wire) as connection:
            seen = connection.now()
            assert datetime.now(UTC) + ahead - timedelta(seconds=30) < seen <= datetime.now(UTC) + ahead


async def test_leaving_ends_requests_without_an_answer():
    """In whatever task: it raises there, rather than hang."""
    asked = anyio.Event()

    async def ask(connection: Connection) -> None:
        with pytest.raises(SupervisorError):
            await connection.ask("POST", "/x")

    def handle(request: Request) -> bytes:
        asked.set()
        return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n"  # and no more

    async with wired(handle) as wire, connected(wire) as connection, anyio.create_task_group() as tasks:
        tasks.start_soon(ask, connection)
        await asked.wait()
        await connection.leave()
