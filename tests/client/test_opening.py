"""Opening a server: who is let in, as whom, and what one clear line says where it fails."""

import io
import re
import sys
import traceback
from contextlib import asynccontextmanager
from ipaddress import ip_address
from pathlib import Path

import anyio
import pytest
from certificates import Authority
from cryptography import x509
from cutting import proxied
from sides import serving
from wires import answer, greeting, problem, wired

from supervisor import (
    Approve,
    InvalidInput,
    NotAuthenticated,
    NotEntitled,
    ServerMismatch,
    ServerUnavailable,
    SupervisorError,
    open_remote,
)
from supervisor.client.connection import LARGEST_ANSWER_BYTES, LARGEST_GREETING_BYTES

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("short_pauses")]
TOKEN = "token-of-olga"


async def refusal_of(url: str, token: str = TOKEN, **options) -> SupervisorError:
    """Return the error of opening; it is one line, and neither it nor its traceback has the token."""
    with pytest.raises(SupervisorError) as raised:
        async with open_remote(url, token=token, **options):
            pass
    shown = io.StringIO()
    traceback.print_exception(raised.value, file=shown)
    assert token not in shown.getvalue()
    assert "\n" not in str(raised.value)
    return raised.value


@pytest.mark.parametrize("token", ["token-of-nobody", "token-of-late", "Token-of-olga"])
async def test_a_token_that_is_unknown_or_has_expired_opens_nothing(token):
    """A daemon of ours says so."""
    async with serving() as (_, url):
        assert type(await refusal_of(url, token)) is NotAuthenticated


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (greeting(api=2, version="9.9"), ServerMismatch),
        (answer(b"<html>Log in</html>", 200, "text/html"), ServerMismatch),
        (answer(b"", 303, "text/html", location="/login"), ServerMismatch),
        (answer({"hello": "world"}), ServerMismatch),
        (answer(b"not found", 404, "text/plain"), ServerMismatch),
        (problem(404, "not_found"), ServerMismatch),
        (problem(421, "misdirected_request"), ServerMismatch),
        (problem(503, "service_unavailable"), ServerUnavailable),
        (b"SSH-2.0-OpenSSH\r\n", ServerUnavailable),
        (b"", ServerUnavailable),
    ],
    ids=["version", "page", "redirect", "json", "nothing", "prefix", "host", "starting", "ssh", "cut"],
)
async def test_a_wrong_server_is_named(given, kind):
    """At once: what was never reached is not waited for."""
    async with wired() as wire:
        wire.greets = lambda request: given
        assert type(await refusal_of(wire.url)) is kind
        assert wire.said == []


async def test_an_address_without_a_listener_is_unavailable():
    """And nothing was done."""
    async with wired() as wire:
        pass
    error = await refusal_of(wire.url)
    assert isinstance(error, ServerUnavailable)
    assert not error.maybe_done


async def test_http_to_another_host_is_refused_before_anything_is_sent():
    """The token would travel in the clear."""
    assert type(await refusal_of("http://supervisor.example")) is InvalidInput


async def test_proxies_of_the_environment_get_no_token(monkeypatch):
    """Neither for http nor for this machine."""
    async with wired() as proxy, serving() as (_, url):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "HTTPS_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        async with open_remote(url, token=TOKEN) as remote:
            await remote.check()
        assert proxy.connections == 0


async def test_only_a_server_whose_certificate_is_trusted_gets_the_token(tmp_path, monkeypatch):
    """$SSL_CERT_FILE names an authority of one's own."""
    Authority(tmp_path).make("server", x509.IPAddress(ip_address("127.0.0.1")))
    async with wired() as wire, proxied(wire.url, tmp_path / "server.pem") as front:
        assert "CERTIFICATE" in str(await refusal_of(front.url))
        assert wire.connections == 0
        monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "ca.pem"))
        async with open_remote(front.url, token=TOKEN) as remote:
            assert remote.where == front.url


async def test_without_httpx_one_line_says_what_to_install(monkeypatch):
    """The extra is not installed."""
    monkeypatch.setitem(sys.modules, "httpx", None)
    for name in [name for name in sys.modules if re.match(r"supervisor\.client\.", name)]:
        if name != "supervisor.client.addresses":
            monkeypatch.delitem(sys.modules, name)
    assert "[client]" in str(await refusal_of("https://supervisor.example"))


async def test_a_person_acts_under_no_other_name():
    """By another name nothing is sent."""
    async with serving() as (local, url), open_remote(url, token=TOKEN) as remote:
        for refused in (
            lambda: remote.decide("x" * 42, Approve(by="ana")),
            lambda: remote.start("doubling", 1, requester="ana"),
            lambda: remote.send("x", "hello", by="ana"),
            lambda: remote.chat("x", "yes", by="ana"),
            lambda: remote.cancel("x", by="ana"),
            lambda: remote.resume("x", by="ana"),
            lambda: remote.retry("x", by="ana"),
            lambda: remote.fork("x", before=2, by="ana"),
            lambda: remote.revoke_rule("x", by="ana"),
        ):
            with pytest.raises(NotEntitled):
                await refused()
        assert list(await local.find_sessions()) == []


async def test_the_token_is_in_no_repr_of_what_is_handed_out():
    """Of the supervisor, a run, a watch."""
    async with serving() as (_, url), open_remote(url, token=TOKEN) as remote:
        run = await remote.start("doubling", 1)
        assert TOKEN not in f"{remote!r} {run!r} {remote.watch_inbox()!r} {remote.where}"
        assert await run.result() == 2


@asynccontextmanager
async def restarted(how):
    """Open a server that is another one from its second connection on."""
    async with wired(lambda request: b"") as wire, open_remote(wire.url, token=TOKEN, reconnect_timeout=0.2) as remote:
        wire.greets = lambda request: how
        yield remote


@pytest.mark.parametrize(
    ("how", "kind"),
    [
        (greeting(store="t" * 10), ServerMismatch),
        (greeting(api=2), ServerMismatch),
        (problem(401, "not_authenticated"), NotAuthenticated),
        (problem(503, "service_unavailable"), ServerUnavailable),
        (b"", ServerUnavailable),
    ],
    ids=["store", "version", "revoked", "starting", "dead"],
)
async def test_a_server_that_comes_back_as_another_one_is_left_alone(how, kind):
    """Requests and watches say so in one line."""
    async with restarted(how) as remote:
        for asked in (lambda: remote.get_session("x"), lambda: remote.watch_inbox().__aenter__()):
            with pytest.raises(SupervisorError) as raised:
                await asked()
            assert type(raised.value) is kind
            assert TOKEN not in str(raised.value)


async def test_a_daemon_that_is_restarted_is_found_again(tmp_path):
    """The watch goes on where it was, and a command waits until the daemon is there."""
    store = tmp_path / "state.db"
    ready, again = anyio.Event(), anyio.Event()
    ports = []

    async def serve_twice() -> None:
        for event in (ready, again):
            async with serving(store, port=ports[0] if ports else 0) as (_, url):
                ports[:] = [int(url.rpartition(":")[2])]
                event.set()
                await stop.wait() if event is ready else await anyio.sleep_forever()

    stop = anyio.Event()
    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(serve_twice)
            await ready.wait()
            async with open_remote(f"http://127.0.0.1:{ports[0]}", token=TOKEN) as remote:
                async with remote.watch_inbox() as inbox:
                    await remote.start("noting", ["bread"], session="mine")
                    asked = await anext(inbox)
                    stop.set()
                    await again.wait()
                    assert (await remote.decide(asked.id, Approve(by="olga"))).is_accepted
                    found = await anext(inbox)
                    assert (found.id, found.status) == (asked.id, "approved")
                assert await (await remote.get_run("mine")).result() == ["noted bread"]
            tasks.cancel_scope.cancel()


async def test_a_watch_that_a_break_leaves_closes_its_connection():
    """The server takes one stream at a time, and takes the next one."""
    async with serving(max_streams=1) as (local, url), open_remote(url, token=TOKEN, reconnect_timeout=5) as remote:
        await local.start("noting", ["bread"], requester="olga")
        for _ in range(3):
            async with remote.watch_inbox() as inbox:
                async for asked in inbox:
                    assert asked.arguments == {"text": "bread"}
                    break


async def test_the_program_of_the_guide_decides():
    """docs/how-to/decide-from-another-machine.md, as it is written there."""
    guide = Path(__file__).parents[2] / "docs" / "how-to" / "decide-from-another-machine.md"
    (program,) = re.findall(r"```python\n(.*?)```", guide.read_text(), re.DOTALL)
    names: dict = {"print": lambda *_: None}
    exec(program.replace('"ana"', '"olga"'), names)
    async with serving() as (local, url), anyio.create_task_group() as tasks:
        tasks.start_soon(names["decide_all"], url, TOKEN, lambda approval: approval.arguments == {"text": "bread"})
        run = await local.start("noting", ["bread", "cake"], requester="olga")
        noted, denied = await run.result()
        assert (noted, "not from here" in denied) == ("noted bread", True)
        tasks.cancel_scope.cancel()


async def test_a_list_that_does_not_end_and_an_answer_without_end_are_given_up():
    """A hostile server fills neither the memory nor the time of its client."""
    size = LARGEST_GREETING_BYTES + 1

    def pages(request):
        return answer({"items": [], "next": f"n{len(wire.said)}", "cursor": "c"})

    async with wired(pages) as wire, open_remote(wire.url, token=TOKEN) as remote:
        remote.most_empty_pages = 50
        with pytest.raises(ServerMismatch):
            await remote.find_sessions(limit=None)
        assert len(wire.said) == 50
    async with wired(lambda request: answer({})) as wire:
        wire.greets = lambda request: answer(b" " * size)
        assert isinstance(await refusal_of(wire.url), ServerMismatch)


async def test_a_page_that_is_too_large_is_asked_for_in_smaller_ones():
    """Down to a single item: then it is no answer of ours."""
    asked = []

    def pages(request):
        asked.append(int(re.search(r"limit=(\d+)", request.path)[1]))
        if asked[-1] > 100:
            return b"HTTP/1.1 200 X\r\ncontent-type: application/json\r\n\r\n" + b" " * (LARGEST_ANSWER_BYTES + 1)
        return answer({"items": [], "next": None, "cursor": "c"})

    async with wired(pages) as wire, open_remote(wire.url, token=TOKEN) as remote:
        assert list(await remote.find_sessions(limit=None)) == []
    assert asked == [1000, 500, 250, 125, 62]
