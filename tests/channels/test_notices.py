"""ntfy and the hook say that an approval waits, and nothing by which a person could decide."""

import base64
import re
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio
import httpx
import msgspec
import pytest
from standardwebhooks import Webhook

from supervisor import Approve, Context, MemoryStore, People, agent, open_supervisor, tool
from supervisor.channels import Route
from supervisor.channels.notices import Hook, Ntfy
from supervisor.channels.notices.hook import SECRET as FORM
from supervisor.channels.notices.sending import why_not_address
from supervisor.wiring.config import read_configuration
from supervisor.wiring.platforms import make_channels, make_routes

pytestmark = pytest.mark.anyio

SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


@tool(secret=["password"])
async def deploy(target: str, password: str = "hush-hush") -> str:
    return f"deployed {target}"


@agent
async def deployer(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).kind


class FakeNtfy:
    """A server of ntfy: it keeps notifications, and a newer one of the same sequence replaces the older one."""

    def __init__(self):
        self.published = []
        self.status = 200
        self.is_lost = False  # whether it breaks off after it has taken a notification

    def __call__(self, request):
        if self.status != 200:
            return httpx.Response(self.status, headers={"location": "https://elsewhere.example/"})
        if request.method == "GET":
            assert request.url.params["poll"] == "1"
            return httpx.Response(200, content=b"\n".join(map(msgspec.json.encode, self.published)))
        assert request.headers["authorization"] == "Bearer tk_1"
        self.published.append(msgspec.json.decode(request.read()))
        if self.is_lost:
            self.is_lost = False
            raise httpx.ReadError("broke off")
        return httpx.Response(200, json={})

    def channel(self, **options):
        options = {"transport": httpx.MockTransport(self), **options}
        return Ntfy(topic="alerts", token="tk_1", link="https://x", **options)


class Receiver:
    """A program that takes each id once, after it has verified the signature with a library of others."""

    def __init__(self):
        self.tries = []
        self.taken = {}
        self.status = 204
        self.is_lost = False

    def __call__(self, request):
        self.tries.append(request.headers["webhook-id"])
        if self.status != 204:
            return httpx.Response(self.status, headers={"location": "https://elsewhere.example/"})
        document = msgspec.json.decode(request.read())
        Webhook(SECRET).verify(request.read(), dict(request.headers))
        self.taken[request.headers["webhook-id"]] = document
        if self.is_lost:
            self.is_lost = False
            raise httpx.ReadError("broke off")
        return httpx.Response(self.status)

    def channel(self, **options):
        url = "https://hooks.example/x?key=k"
        options = {"transport": httpx.MockTransport(self), **options}
        return Hook(url=url, secret=SECRET, link="https://x", **options)


async def asked(supervisor, target="production"):
    run = await supervisor.start(deployer, target, session="s")
    await anyio.sleep(30)
    (approval,) = await supervisor.find_approvals()
    return run, approval


async def test_a_notification_names_agent_tool_and_link_and_a_decision_makes_it_quiet():
    """Nothing of the arguments. It has the approval's id, so that the later one replaces it."""
    server = FakeNtfy()
    async with open_supervisor(MemoryStore(), channels=[server.channel()], remind_after=60.0) as supervisor:
        run, approval = await asked(supervisor)
        (first,) = server.published
        assert first["title"] == "deployer asks to call deploy"
        assert (first["topic"], first["click"]) == ("alerts", f"https://x/approvals/{approval.id}")
        assert "production" not in str(first)
        assert "actions" not in first
        await anyio.sleep(121)  # the reminder is due after 60, and gathered for as long
        assert len(server.published) == 2
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == "ok"
        await anyio.sleep(1)
        assert (server.published[-1]["message"], server.published[-1]["priority"]) == ("approved", 1)
        assert {each["sequence_id"] for each in server.published} == {approval.id}


async def test_arguments_are_shown_only_on_request_and_secret_ones_never():
    """A mask stands for the secret value, and control characters are escaped."""
    server, receiver = FakeNtfy(), Receiver()
    channels = [server.channel(detail="full"), receiver.channel(detail="full")]
    async with open_supervisor(MemoryStore(), channels=channels) as supervisor:
        run, _ = await asked(supervisor, "pro\x1b[31mduction\r\nx")
        (message,) = server.published
        assert "pro⟨U+001B⟩[31mduction" in message["message"]
        assert not set(message["title"] + message["message"].replace("\n", "")) & set(map(chr, range(32)))
        (document,) = receiver.taken.values()
        assert document["data"]["arguments"] == {"target": "pro\x1b[31mduction\r\nx", "password": "[secret]"}
        assert "hush-hush" not in str([message, document])
        await run.cancel()


async def test_a_hook_says_what_waits_and_what_was_decided():
    """The standard's own library verifies each request; each fact has an id of its own."""
    receiver = Receiver()
    async with open_supervisor(MemoryStore(), channels=[receiver.channel()], remind_after=60.0) as supervisor:
        run, approval = await asked(supervisor)
        await anyio.sleep(121)
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == "ok"
        await anyio.sleep(1)
    kinds = [document["type"] for document in receiver.taken.values()]
    assert kinds == ["approval.pending", "approval.reminded", "approval.decided"]
    pending, _, decided = receiver.taken.values()
    assert (pending["data"]["tool"], pending["data"]["link"]) == ("deploy", f"https://x/approvals/{approval.id}")
    assert (decided["data"]["status"], decided["data"]["by"], "arguments" in decided["data"]) == (
        "approved",
        "ana",
        False,
    )


@pytest.mark.parametrize("status", [301, 307, 401, 404, 410, 429, 500, 503])
@pytest.mark.parametrize("other", [FakeNtfy, Receiver])
async def test_a_failure_is_tried_again_and_a_redirect_is_not_followed(other, status, caplog):
    """A11: under the same id, until it is taken. The log has neither secret nor address."""
    there = other()
    there.status, well = status, there.status
    async with open_supervisor(MemoryStore(), channels=[there.channel()]) as supervisor:
        run, _ = await asked(supervisor)
        there.status = well
        await anyio.sleep(60)
        assert len(there.published if other is FakeNtfy else there.taken) == 1
        assert other is FakeNtfy or len({*there.tries}) == 1 < len(there.tries)
        await run.cancel()
    assert not any(secret in caplog.text for secret in ("tk_1", SECRET, "key=k", "elsewhere"))


@pytest.mark.parametrize("other", [FakeNtfy, Receiver])
async def test_a_lost_answer_makes_no_second_notice(other):
    """R3: ntfy is asked whether it has it; a receiver knows the id."""
    there = other()
    there.is_lost = True
    async with open_supervisor(MemoryStore(), channels=[there.channel()]) as supervisor:
        run, _ = await asked(supervisor)
        assert len(there.published if other is FakeNtfy else there.taken) == 1
        await run.cancel()


async def test_a_notice_goes_to_the_topic_of_its_route():
    server = FakeNtfy()
    channel = server.channel()
    async with open_supervisor(MemoryStore(), channels=[channel], routes=[Route(notify=("ntfy:ops",))]) as supervisor:
        run, _ = await asked(supervisor)
        assert [each["topic"] for each in server.published] == ["ops"]
        await run.cancel()


@contextmanager
def listening(taken):
    """A real HTTP server that redirects its second request."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["content-length"]))
            Webhook(SECRET).verify(body, dict(self.headers))
            taken.append(self.path)
            self.send_response(200 if len(taken) != 2 else 307)
            self.send_header("location", "/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *about): ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/hook"
    finally:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_requests_over_a_socket_are_verified_and_not_redirected(anyio_backend):
    taken: list = []
    with listening(taken) as url:
        async with open_supervisor(MemoryStore(), channels=[Hook(url=url, secret=SECRET)]) as supervisor:
            run = await supervisor.start(deployer, "x")
            with anyio.fail_after(30):
                while not taken:
                    await anyio.sleep(0.01)
                await run.cancel()
                while len(taken) < 2:
                    await anyio.sleep(0.01)
        assert {*taken} == {"/hook"}


@pytest.mark.parametrize("address", ["https://[::1", "https://h:port", "https://ana:hush@h", "https://h/\nhush", "x"])
def test_an_address_that_cannot_be_right_is_a_problem_that_does_not_repeat_it(address):
    """`supervisor check` prints problems, and an address may hold a secret."""
    why = why_not_address(address, has_secret=True)
    assert why is not None
    assert "hush" not in why


def test_each_secret_of_the_right_form_makes_a_hook():
    """A secret that lost a letter is a problem of its key, and no error of a daemon that starts."""
    for size in range(24, 65):
        secret = "whsec_" + base64.b64encode(bytes(size)).decode()
        assert re.fullmatch(FORM.form, secret)
        Hook(url="https://h", secret=secret)
        assert not re.fullmatch(FORM.form, secret[:-1])


def test_the_tables_of_the_guide_make_both_channels(tmp_path):
    """docs/how-to/notices.md: with its route, and the secrets in the files that it names."""
    guide = Path(__file__).parents[2] / "docs/how-to/notices.md"
    file = tmp_path / "supervisor.toml"
    file.write_text("\n".join(re.findall(r"^```toml\n(.*?)^```$", guide.read_text(), re.MULTILINE | re.DOTALL)))
    (tmp_path / "ntfy.token").write_text("tk_1\n")
    (tmp_path / "hook.secret").write_text(SECRET)
    channels = make_channels(configuration := read_configuration(file), People([]), {}, "https://x")
    (route,) = make_routes(configuration, channels, People([]))
    assert (sorted(each.name for each in channels), route.notify) == (["hook", "ntfy"], ("ntfy", "hook"))
