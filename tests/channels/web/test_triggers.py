"""R11: a signed request of another program starts one session, however often it is sent; all others start none."""

import base64
import hashlib
import hmac
import json
import os
import re
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import httpx
import pytest
from sites import EVERYBODY, HOST, ORIGIN
from standardwebhooks import Webhook

from supervisor import Context, InvalidInput, MemoryStore, agent, events as e, open_supervisor
from supervisor.channels.web.auth import Guard
from supervisor.channels.web.site import make_app
from supervisor.channels.web.state import Site
from supervisor.channels.web.triggers import Trigger, trigger_routes
from supervisor.wiring.config import read_configuration
from supervisor.wiring.daemon import settle

pytestmark = pytest.mark.anyio
SECRET = "whsec_" + base64.b64encode(b"k" * 32).decode()
PATH = "/triggers/push"


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


@agent
async def counting(ctx: Context, given: dict[str, int]) -> int:
    return given["n"]


@agent
async def idle(ctx: Context) -> None:
    """Takes no input."""


@agent
async def reading(ctx: Context, text: str) -> str:
    return text


@asynccontextmanager
async def served(signed="standard", secret=SECRET, spec="counting", store=None):
    """A supervisor, and a client of its server, which has one trigger."""
    async with open_supervisor(store or MemoryStore(), agents=[counting, reading], people=EVERYBODY) as supervisor:
        site = Site(Guard(EVERYBODY, b"s" * 32, None, "supervisor-8787"), is_secure=False)
        site.serving = supervisor
        more = trigger_routes(site, [Trigger("push", spec, signed, secret)])
        app = make_app(site, [HOST.partition(":")[0]], any_address=False, more=more)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=ORIGIN) as client:
            yield supervisor, client


def standard(body: bytes, *, of="msg_1", at=None, secret=SECRET) -> dict[str, str]:
    """Return the headers of a delivery, made by the library of Standard Webhooks."""
    at = at or datetime.now(UTC)
    signature = Webhook(secret).sign(of, at, body.decode())
    return {"webhook-id": of, "webhook-timestamp": str(int(at.timestamp())), "webhook-signature": signature}


def github(body: bytes, secret="It's a Secret") -> dict[str, str]:
    return {"x-hub-signature-256": "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}


async def count(supervisor) -> int:
    return len(await supervisor.find_sessions())


async def test_a_delivery_starts_one_session_and_again_gets_the_same_answer():
    """It has an id, whatever its time and its body; another id is another session."""
    body = b'{"n": 7}'
    async with served() as (supervisor, client):
        first = await client.post(PATH, content=body, headers=standard(body))
        later = datetime.now(UTC) + timedelta(seconds=60)
        again = await client.post(PATH, content=b'{"n":7}', headers=standard(b'{"n":7}', at=later))
        assert (first.status_code, first.json()) == (again.status_code, again.json()) == (202, first.json())
        (session,) = await supervisor.find_sessions()
        assert first.json() == {"session": session.id}
        created = (await supervisor.find_entries(session.id)).items[0].event
        assert isinstance(created, e.SessionCreated)
        assert created.requester == "trigger push"
        assert await (await supervisor.get_run(session.id)).result() == 7
        await client.post(PATH, content=body, headers=standard(body, of="msg_2"))
        assert await count(supervisor) == 2


async def test_one_delivery_that_comes_many_times_at_once_starts_one_session():
    body, answers = b'{"n": 7}', []
    async with served() as (supervisor, client):
        headers = standard(body)

        async def send():
            answers.append((await client.post(PATH, content=body, headers=headers)).json()["session"])

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(send)
        assert (len(answers), len({*answers}), await count(supervisor)) == (10, 1, 1)


def old(body: bytes) -> dict[str, str]:
    return standard(body, at=datetime.now(UTC) - timedelta(minutes=6))


def early(body: bytes) -> dict[str, str]:
    return standard(body, at=datetime.now(UTC) + timedelta(minutes=6))


def of_another(body: bytes) -> dict[str, str]:
    return standard(body, secret="whsec_" + base64.b64encode(b"x" * 32).decode())


def with_another_id(body: bytes) -> dict[str, str]:
    return standard(body) | {"webhook-id": "msg_2"}


def of_another_body(body: bytes) -> dict[str, str]:
    return standard(b'{"n": 8}')


def cut_elsewhere(body: bytes) -> dict[str, str]:
    """The signature is over id.time.body: a part of the id becomes the time, and the time a part of the body."""
    now = int(datetime.now(UTC).timestamp())
    return standard(b'{"n": 7}', of=f"msg.{now}") | {"webhook-id": "msg", "webhook-timestamp": str(now)}


UNSIGNED = {
    "nothing": lambda body: {},
    "old": old,
    "early": early,
    "of another": of_another,
    "with another id": with_another_id,
    "of another body": of_another_body,
    "no number": lambda body: standard(body) | {"webhook-timestamp": "now"},
    "a long number": lambda body: standard(body) | {"webhook-timestamp": "9" * 5000},
    "no base64": lambda body: (
        standard(body) | {"webhook-signature": "v1,*** v1 v1,é".encode("latin-1").decode("latin-1")}
    ),
    "another version": lambda body: standard(body) | {"webhook-signature": "v2,AAAA"},
    "no id": lambda body: standard(body, of="") | {"webhook-id": ""},
    "github's": github,
}


@pytest.mark.parametrize("kind", UNSIGNED)
async def test_a_request_that_is_not_signed_is_refused(kind):
    """And starts nothing."""
    body = b'{"n": 7}'
    headers = {name: value.encode("latin-1") for name, value in UNSIGNED[kind](body).items()}
    async with served() as (supervisor, client):
        answer = await client.post(PATH, content=body, headers=headers)
        assert (answer.status_code, await count(supervisor)) == (401, 0)


async def test_a_signature_counts_for_one_cut_of_what_is_signed():
    """An id may end with a time, as those of our own hook do."""
    now = int(datetime.now(UTC).timestamp())
    headers = standard(b"hello", of=f"a.{now}", at=datetime.fromtimestamp(now + 1, UTC))
    async with served(spec="reading") as (supervisor, client):
        moved = headers | {"webhook-id": "a", "webhook-timestamp": str(now)}
        answer = await client.post(PATH, content=f"{now + 1}.".encode() + b"hello", headers=moved)
        assert (answer.status_code, await count(supervisor)) == (401, 0)


async def test_one_of_several_signatures_is_enough():
    """A sender that changes its secret signs with both."""
    body = b'{"n": 7}'
    both = f"v1,AAAA v1a,BBBB {standard(body)['webhook-signature']}"
    async with served() as (_, client):
        answer = await client.post(PATH, content=body, headers=standard(body) | {"webhook-signature": both})
        assert answer.status_code == 202


async def test_a_delivery_of_github_is_known_by_its_body():
    """The body alone is signed. A ping starts nothing, and is well."""
    body = b'{"n": 7}'
    async with served("github", "It's a Secret") as (supervisor, client):
        for _ in range(2):
            assert (await client.post(PATH, content=body, headers=github(body))).status_code == 202
        assert await count(supervisor) == 1
        await client.post(PATH, content=b'{"n": 8}', headers=github(b'{"n": 8}'))
        assert await count(supervisor) == 2
        ping = await client.post(PATH, content=b"{}", headers=github(b"{}") | {"x-github-event": "ping"})
        assert (ping.status_code, ping.json(), await count(supervisor)) == (200, {"session": None}, 2)
        for wrong in (
            {},
            github(body, "other"),
            {"x-hub-signature": github(body)["x-hub-signature-256"]},
            standard(body),
        ):
            assert (await client.post(PATH, content=body, headers=wrong)).status_code == 401
        assert await count(supervisor) == 2


@pytest.mark.parametrize("signed", ["standard", "github"])
async def test_a_delivery_again_gets_the_same_answer_after_its_session_was_pruned(signed):
    """And starts nothing, whatever its agent takes by then. One that never came begins."""
    body, other, sign = b'{"n": 7}', b'{"n": 8}', standard if signed == "standard" else github
    secret, store = SECRET if signed == "standard" else "It's a Secret", MemoryStore()
    async with served(signed, secret, store=store) as (supervisor, client):
        first = await client.post(PATH, content=body, headers=sign(body))
        await (await supervisor.get_run(first.json()["session"])).result()
    async with served(signed, secret, store=store) as (supervisor, client):
        await supervisor.prune(datetime.now(UTC) + timedelta(days=1))
        assert await count(supervisor) == 0
        supervisor.agents["counting"] = reading
        again = await client.post(PATH, content=body, headers=sign(body))
        assert (again.status_code, again.json(), await count(supervisor)) == (202, first.json(), 0)
        supervisor.agents["counting"] = counting
        await client.post(PATH, content=other, headers=sign(other, **({"of": "msg_2"} if sign is standard else {})))
        assert await count(supervisor) == 1


async def test_a_body_is_json_that_fits_or_the_text_itself():
    async with served(spec="reading") as (supervisor, client):
        for number, body in enumerate((b'{"n": 7}', b"plain words", b'"quoted"')):
            await client.post(PATH, content=body, headers=standard(body, of=f"msg_{number}"))
        values = [await (await supervisor.get_run(each.id)).result() for each in await supervisor.find_sessions()]
        assert values == ['{"n": 7}', "plain words", "quoted"]


@pytest.mark.parametrize("signed", ["standard", "github"])
async def test_a_body_of_no_bytes_starts_an_agent_without_input_once(signed):
    async with served(signed, SECRET if signed == "standard" else "It's a Secret") as (supervisor, client):
        supervisor.agents["counting"] = idle
        headers = standard(b"") if signed == "standard" else github(b"")
        for _ in range(2):
            assert (await client.post(PATH, content=b"", headers=headers)).status_code == 202
        assert await count(supervisor) == 1


@pytest.mark.parametrize(
    ("body", "status"), [(b"[]", 422), (b"words", 422), (b"\xff", 422), (b"", 422), (b"[" * 1000, 422)]
)
async def test_a_body_that_fits_not_is_refused(body, status):
    """It starts nothing; the sender learns why."""
    async with served() as (supervisor, client):
        answer = await client.post(PATH, content=body, headers=signed_bytes(body))
        assert (answer.status_code, await count(supervisor)) == (status, 0)


def signed_bytes(body: bytes) -> dict[str, str]:
    now = str(int(datetime.now(UTC).timestamp()))
    digest = hmac.digest(b"k" * 32, b".".join([b"msg", now.encode(), body]), "sha256")
    signature = f"v1,{base64.b64encode(digest).decode()}"
    return {"webhook-id": "msg", "webhook-timestamp": now, "webhook-signature": signature}


async def test_a_large_body_is_refused_before_its_signature_is_checked():
    body = b"x" * (1024 * 1024 + 1)
    async with served() as (_, client):
        assert (await client.post(PATH, content=body, headers=signed_bytes(body))).status_code == 413


async def test_no_other_path_or_method_is_a_trigger():
    body = b'{"n": 7}'
    async with served() as (_, client):
        assert (await client.post("/triggers/other", content=body, headers=standard(body))).status_code in (401, 404)
        assert (await client.get(PATH, headers=standard(body))).status_code in (401, 405)


CONFIGURED = '[triggers.push]\nagent = "{agent}"\n{more}'


def configured(folder, *, agent="counting", more="", signed=None):
    """Return the settings of a daemon with one trigger."""
    file = folder / "supervisor.toml"
    more += f'\nsigned = "{signed}"' if signed else ""
    file.write_text(CONFIGURED.format(agent=agent, more=more))
    settings = settle(read_configuration(file), store=folder / "s", agents=[__file__], host=None, port=0, operator=None)
    return settings.triggers[0]


async def test_the_secret_is_in_a_file_or_a_variable(tmp_path, monkeypatch):
    """Never in the configuration or in what shows the trigger. The variable is taken out of the environment."""
    monkeypatch.setenv("TRIGGER_PUSH_SECRET", SECRET)
    shown = configured(tmp_path)
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secret").chmod(0o600)
    assert "TRIGGER_PUSH_SECRET" not in os.environ
    for each in (shown, configured(tmp_path, more='secret_file = "secret"')):
        body = json.dumps({"n": 1}).encode()
        assert each.find_session(standard(body), body, datetime.now(UTC))
        assert SECRET not in repr(each)


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({}, "TRIGGER_PUSH_SECRET"),
        ({"more": f'secret = "{SECRET}"'}, "secret"),
        ({"more": 'secret_file = "none"'}, "secret_file"),
        ({"agent": "other", "more": 'secret_file = "secret"'}, "triggers.push.agent"),
        ({"more": 'secret_file = "weak"'}, "secret_file"),
        ({"more": 'secret_file = "secret"', "signed": "not at all"}, "signed"),
    ],
)
async def test_a_configuration_that_cannot_be_served_names_the_key(tmp_path, given, key):
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "weak").write_text("short")
    with pytest.raises(InvalidInput, match=key):
        configured(tmp_path, **given)


async def test_the_configuration_of_the_guide_is_served_and_its_program_starts_a_session(tmp_path):
    """docs/how-to/triggers.md, with secrets of its own."""
    page = (Path(__file__).parents[3] / "docs/how-to/triggers.md").read_text()
    program, sender = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "agents.py").write_text(program)
    (tmp_path / "supervisor.toml").write_text(re.search(r"```toml\n(.*?)```", page, re.DOTALL)[1])
    for name, text in (("alarm", SECRET), ("push", "It's a Secret")):
        (tmp_path / f"{name}.secret").write_text(text)
        (tmp_path / f"{name}.secret").chmod(0o600)
    found = read_configuration(tmp_path / "supervisor.toml")
    alarm, push = settle(found, store=tmp_path / "s", agents=[], host=None, port=0, operator=None).triggers
    said: dict = {}
    exec(sender, said)  # the program of the page
    body = b'{"n": 7}'
    async with served() as (supervisor, _):
        for trigger, headers in ((alarm, said["headers_of"](SECRET, "msg_1", body)), (push, github(body))):
            session = trigger.find_session(headers, body, datetime.now(UTC))
            supervisor.agents["triage"] = counting
            await trigger.start(supervisor, session, body)
            assert await (await supervisor.get_run(session)).result() == 7
