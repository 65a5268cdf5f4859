"""Who may: forged, expired, foreign-origin and wrong-role requests are refused, and the card stays live (A4)."""

import re
from base64 import urlsafe_b64encode
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta

import pytest
from sites import EVERYBODY, HOST, ORIGIN, csrf_of, world
from starlette.requests import Request

from supervisor.channels.web.auth import Guard
from supervisor.channels.web.problems import Problem
from supervisor.core import events as e

pytestmark = pytest.mark.anyio
APPROVE = {"decision": "approve"}


@pytest.mark.parametrize("path", ["/api/sessions", "/api/approvals/x", "/metrics", "/openapi.json", "/nowhere"])
@pytest.mark.parametrize("token", [None, "forged", "late", "", "Olga"])
async def test_a_client_without_a_login_is_told_nothing(path, token):
    """No token, a forged one, an expired one: only the probes answer."""
    async with world() as here, here.client(token) as client:
        answer = await client.get(path)
        assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json")
        assert answer.headers["www-authenticate"] == "Bearer"
        assert [(await client.get(f"/{name}")).status_code for name in ("health", "ready")] == [200, 200]


@pytest.mark.parametrize(
    ("who", "agent", "requester", "text", "decision", "status"),
    [
        ("olga", "noting", "olga", "x", APPROVE, 200),
        ("ana", "noting", "olga", "x", APPROVE, 200),
        ("bob", "noting", "olga", "x", APPROVE, 403),
        ("bob", "noting", "bob", "x", APPROVE, 200),
        ("ana", "chief", "olga", "x", APPROVE, 403),
        ("cleo", "chief", "olga", "x", APPROVE, 200),
        ("bob", "chief", "bob", "x", APPROVE, 403),
        ("bob", "noting", "bob", "secret", APPROVE, 403),
        ("ana", "noting", "olga", "secret", APPROVE, 200),
        ("ana", "noting", "olga", "x", {**APPROVE, "scope": "always"}, 403),
        ("cleo", "noting", "olga", "x", {**APPROVE, "scope": "always"}, 200),
        ("bob", "noting", "bob", "x", {**APPROVE, "scope": "session"}, 403),
    ],
)
async def test_only_an_entitled_person_decides(who, agent, requester, text, decision, status):
    """A4: roles, requesters, approvers of an agent and of a rule; a refusal is told, kept, and changes nothing."""
    async with world() as here, here.client(who) as client:
        asked = await here.ask(agent=agent, requester=requester, text=text)
        answer = await client.post(f"/api/approvals/{asked.id}/decision", json=decision)
        assert answer.status_code == status, answer.text
        refused = [row.event for row in await here.supervisor.find_audit() if isinstance(row.event, e.DecisionRefused)]
        expected = [(who, asked.id, "web")] if status == 403 else []
        assert [(each.by, each.approval, each.channel) for each in refused] == expected
        decided = [row.event for row in await here.supervisor.find_audit() if isinstance(row.event, e.ApprovalDecided)]
        assert [(each.by, each.channel) for each in decided] == ([(who, "web")] if status == 200 else [])
        found = await here.supervisor.get_approval(asked.id)
        assert (found.status == "pending") == (status == 403)


@pytest.mark.parametrize("who", ["ana", "bob"])
async def test_only_operators_start_and_cancel_and_make_rules(who):
    """Roles: to decide is not to command."""
    async with world() as here, here.client(who) as client:
        asked = await here.ask()
        rule = {"kind": "allow", "tool": "note"}
        for path, body in [
            ("/api/sessions", {"agent": "noting", "input": {}}),
            (f"/api/sessions/{asked.session}/cancel", {}),
            (f"/api/sessions/{asked.session}/resume", {}),
            (f"/api/sessions/{asked.session}/retry", {}),
            (f"/api/sessions/{asked.session}/fork", {"before": 2}),
            ("/api/resume", {}),
            ("/api/rules", rule),
        ]:
            assert (await client.post(path, json=body)).status_code == 403
        assert (await client.delete("/api/rules/x")).status_code == 403
        assert len(await here.supervisor.find_sessions()) == 1


async def log_in(client, token="olga"):
    answer = await client.post("/login", data={"token": token, "next": "//evil.example"}, headers={"origin": ORIGIN})
    assert (answer.status_code, answer.headers["location"].partition("#")[0]) == (303, "/")
    return answer.headers["set-cookie"]


async def test_a_login_becomes_a_cookie_that_no_script_reads_and_no_other_site_sends():
    """HttpOnly, SameSite; a forged cookie, or one signed with another key, is no login."""
    async with world() as here, here.client() as client:
        cookie = await log_in(client)
        assert "httponly" in cookie.lower()
        assert "samesite=lax" in cookie.lower()
        assert (await client.get("/api/sessions")).status_code == 200
        (name, value), *_ = client.cookies.items()
        client.cookies.clear()
        deep = urlsafe_b64encode(b'["olga",1,"",' + b"[" * 9000).decode()
        for forged in (value[:-4] + "AAAA", "x." + value.partition(".")[2], "", ".", "é.é", f"{deep}."):
            answer = await client.get("/api/sessions", headers={"cookie": f"{name}={forged}".encode()})
            assert answer.status_code == 401
        assert "secure" not in cookie.lower()
        here.site.is_secure = True
        assert "secure" in (await log_in(client)).lower()


@pytest.mark.parametrize("place", ["approvals/{0.id}/decision", "sessions/{0.session}/approve"])
async def test_a_cookie_alone_decides_nothing(place):
    """CSRF: without our Origin and the page's token nothing is decided under a cookie; the refusal is kept."""
    async with world() as here, here.client() as client:
        asked = await here.ask()
        await log_in(client)
        (value,) = client.cookies.values()
        csrf = here.site.guard._read_cookie(value).csrf
        path, body = f"/api/{place.format(asked)}", APPROVE if place.endswith("decision") else {"approval": asked.id}
        for headers in (
            {},
            {"origin": ORIGIN},
            {"origin": "https://evil.example", "x-csrf-token": csrf},
            {"origin": "null", "x-csrf-token": csrf},
            {"x-csrf-token": csrf},
            {"origin": ORIGIN, "x-csrf-token": csrf[:-1]},
        ):
            assert (await client.post(path, json=body, headers=headers)).status_code == 403
        refused = [
            row.event.by for row in await here.supervisor.find_audit() if isinstance(row.event, e.DecisionRefused)
        ]
        assert refused == ["olga"]
        assert (await here.supervisor.get_approval(asked.id)).status == "pending"
        assert (await client.post(path, json=body, headers={"origin": ORIGIN, "x-csrf-token": csrf})).is_success


async def test_a_cookie_that_goes_to_another_port_reads_and_changes_nothing():
    """Cookies go to every port of a host: the CSRF token of a login is on no page that they open."""
    async with world() as here, here.client() as client:
        asked = await here.ask()
        login = await client.post("/login", data={"token": "olga"}, headers={"origin": ORIGIN})
        csrf = csrf_of(login)
        assert csrf not in login.headers["set-cookie"]
        for page in (
            "/",
            f"/approvals/{asked.id}",
            f"/sessions/{asked.session}",
            "/sessions",
            "/rules",
            "/agents",
            "/docs",
        ):
            assert csrf not in (await client.get(page)).text
        decision = f"/api/approvals/{asked.id}/decision"
        stolen = {"origin": ORIGIN, "x-csrf-token": client.cookies[here.site.guard.cookie]}
        assert (await client.post(decision, json=APPROVE, headers=stolen)).status_code == 403
        await client.post("/login", data={"token": "olga"}, headers={"origin": ORIGIN})  # another login has another one
        old = {"origin": ORIGIN, "x-csrf-token": csrf}
        assert (await client.post(decision, json=APPROVE, headers=old)).status_code == 403
        assert (await here.supervisor.get_approval(asked.id)).status == "pending"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (HOST, 200),
        ("localhost:8787", 200),
        ("LOCALHOST", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("10.0.0.1:8787", 421),
        ("", 421),
        ("localhost@evil.example", 421),
        ("localhost:8787@evil.example", 421),
        ("[::1]", 421),
    ],
)
async def test_another_name_for_this_server_is_refused_before_anything_else(host, status):
    """DNS rebinding: the Host header is the outermost check, also of what needs no token."""
    async with world() as here, here.client("olga") as client:
        for path in ("/health", "/api/sessions"):
            assert (await client.get(path, headers={"host": host})).status_code == status


async def test_a_refused_host_is_logged_once_and_not_without_end(caplog):
    """A tunnel's name that is not configured: the chat platform that uses it shows our answer to no person."""
    async with world() as here, here.client() as client:
        for number in range(50):
            await client.get("/health", headers={"host": f"{number // 2}.example"})
    assert [record.getMessage().count("host.refused") for record in caplog.records] == [1] * 20


async def test_a_valid_token_is_accepted_although_other_clients_fail_from_its_address():
    """After ten failures a client is told to wait. Clients of a proxy share an address, so valid tokens still work."""
    async with world() as here, here.client() as client:
        codes = [
            (await client.get("/api/sessions", headers={"authorization": f"Bearer {guess}"})).status_code
            for guess in range(12)
        ]
        assert codes == [401] * 10 + [429] * 2
        answer = await client.post("/login", data={"token": "guess"})
        assert answer.status_code == 429
        assert re.fullmatch(r"\d+", answer.headers["retry-after"])
        assert (await client.get("/api/sessions", headers={"authorization": "Bearer olga"})).status_code == 200
        await log_in(client)
        assert (await client.get("/api/sessions")).status_code == 200
        wrong = await client.get("/api/sessions", headers={"authorization": "Bearer guess"})
        assert wrong.status_code == 429, "a valid token does not reset the failures"


def guess(guard, address):
    request = Request({"type": "http", "headers": [], "client": (address, 1)})
    with pytest.raises(Problem) as caught:
        guard.check_token(request, "guess")
    return caught.value.status


@pytest.mark.parametrize(("later", "status"), [(59, 429), (60, 401)])
async def test_failures_are_forgotten_after_a_minute(later, status):
    """From the first of them on, also while further ones come."""
    instants = [datetime.now(UTC)]
    guard = Guard(EVERYBODY, b"s" * 32, None, "x", now=lambda: instants[-1])
    assert [guess(guard, "a") for _ in range(12)] == [401] * 10 + [429] * 2
    instants.append(instants[0] + timedelta(seconds=later))
    assert guess(guard, "a") == status


async def test_failures_of_many_addresses_take_bounded_memory():
    """The address that has been quiet for the longest is forgotten first."""
    guard = Guard(EVERYBODY, b"s" * 32, None, "x")
    guard.most_addresses = 2
    for address in ("busy", "quiet"):
        assert [guess(guard, address) for _ in range(11)][-1] == 429
    assert guess(guard, "busy") == 429
    assert guess(guard, "new") == 401
    assert [guess(guard, address) for address in ("busy", "quiet")] == [429, 401]


@pytest.mark.parametrize("site", ["cross-site", "same-site", None])
async def test_another_sites_page_neither_logs_a_person_in_nor_shuts_them_out(site):
    """A link with a token that such a page opens or draws only fills in the form; that is no guess. A browser that does
    not say which page it was is not believed."""
    async with (
        world() as here,
        here.client(headers={} if site is None else {"sec-fetch-site": site}) as led,
        here.client("olga") as olga,
    ):
        for token in ["olga", *"0123456789ab"]:
            answer = await led.get("/login", params={"token": token})
            assert (answer.status_code, "set-cookie" in answer.headers) == (200, False)
            assert f'value="{token}"' in answer.text
            assert "set-cookie" not in (await led.head("/login", params={"token": token})).headers
        assert (await olga.get("/api/sessions")).status_code == 200
        own = await led.get("/login", params={"token": "olga"}, headers={"sec-fetch-site": "none"})
        assert own.status_code == 303


@pytest.mark.parametrize("url", ["https://Approvals.Example.org:443/", "https://approvals.example.org"])
async def test_an_address_is_known_however_it_is_written(url):
    """CSRF: an Origin is compared as browsers write it, also after a proxy that uses another name for us."""
    guard = Guard(EVERYBODY, b"s" * 32, url, "x")
    for origin, is_ours in (("https://approvals.example.org", True), ("http://approvals.example.org", False)):
        headers = [(b"host", HOST.encode()), (b"origin", origin.encode())]
        with nullcontext() if is_ours else pytest.raises(Problem):
            guard.check_origin(Request({"type": "http", "headers": headers}))


async def test_a_body_has_a_bound():
    """413, whatever the client says about its length; of a form, its fields have one, too."""
    async with world() as here, here.client("olga") as client:
        assert (await client.post("/api/sessions", content=b" " * (5 << 20))).status_code == 413
        fields = b"a&" * (1 << 20)
        assert (await client.post("/login", content=fields)).status_code == 413
        assert (await client.post("/approvals/x/decision", content=fields)).status_code == 422

        async def more():
            return {"type": "http.request", "body": b" " * (1 << 20), "more_body": True}

        said = []

        async def send(message):
            said.append(message)

        headers = [(b"host", HOST.encode()), (b"authorization", b"Bearer olga"), (b"content-length", b"1")]
        scope = {"type": "http", "method": "POST", "path": "/api/sessions", "headers": headers, "query_string": b""}
        await here.app(scope, more, send)
        assert said[0]["status"] == 413
