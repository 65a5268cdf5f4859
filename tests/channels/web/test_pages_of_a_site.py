"""Pages and their forms over HTTP: who gets in, what is refused, what is answered."""

import html
import re
import socket
from contextlib import asynccontextmanager

import anyio
import httpx
import pytest
from served_agents import asking_many, chatting, listening, note, noting
from sites import HOST, csrf_of, world
from test_who_may import log_in
from watching import next_of

from supervisor import Approve, Context, Deny, Usage, agent, open_supervisor, tool
from supervisor.channels.web import make_web
from supervisor.channels.web.pages.inbox import OPEN_CARDS
from supervisor.core.approvals.people import People, Person, TokenHash, hash_token
from supervisor.core.events.asking import DecisionRefused
from supervisor.seam.shown import until_shown

pytestmark = pytest.mark.anyio
ORIGIN = "http://localhost"
TYPED = {"sec-fetch-site": "none"}
"""The header of a browser for an address that a person typed, or opened from outside a page."""


class Browser:
    """Somebody's browser: keeps the cookie and the CSRF token, and sends forms with what the page put into them."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self.client = client
        self.hidden: dict[str, str] = {}
        self.csrf = ""

    async def get(self, path: str) -> httpx.Response:
        answer = await self.client.get(path)
        self.hidden = dict(re.findall(r'type="hidden" name="(seen|run)"[^>]* value="([^"]*)"', answer.text))
        return answer

    async def post(self, path: str, *, origin: str = ORIGIN, **form: str) -> httpx.Response:
        return await self.client.post(path, data={"csrf": self.csrf, **self.hidden, **form}, headers={"origin": origin})


@asynccontextmanager
async def site(tmp_path):
    """A supervisor with a web inbox; yields it, and a way to open a browser as a person."""
    names = {"ana": ("operator",), "bob": ("approver",), "eve": ()}
    people = People(
        [Person(name=name, roles=roles, tokens=(TokenHash(hash_token(name)),)) for name, roles in names.items()]
    )
    with socket.create_server(("127.0.0.1", 0)) as listener, anyio.fail_after(60):
        web = make_web(people=people, secret=b"x" * 32, listener=listener, hosts=["localhost"])
        async with open_supervisor(
            tmp_path / "state.db", agents=[noting, chatting, listening], channels=[web], people=people
        ) as supervisor:

            async def browser(name: str | None) -> Browser:
                made = Browser(httpx.AsyncClient(transport=httpx.ASGITransport(web._app), base_url=ORIGIN))
                if name is not None:
                    made.csrf = csrf_of(await made.client.get(f"/login?token={name}", headers=TYPED))
                return made

            yield supervisor, browser


async def an_approval(supervisor, text="bread"):
    await supervisor.start(noting, {text: "/dev/null"}, session=f"s-{text}", requester="ana")
    return (await next_of(supervisor.watch_approvals())).id


async def test_an_unknown_person_is_asked_to_log_in_and_comes_back(tmp_path):
    """No page without a login; the form reports a wrong token; no login leads to another site."""
    async with site(tmp_path) as (_, browser):
        nobody = await browser(None)
        for path in ("/", "/sessions", "/rules", "/schedules", "/count", "/approvals/x", "/sessions/x"):
            answer = await nobody.get(path)
            assert (answer.status_code, answer.headers["location"][:7]) == (303, "/login?")
        assert (await nobody.client.get("/login?token=wrong", headers=TYPED)).status_code == 401
        answer = await nobody.client.get("/login?token=ana&next=//evil.example", headers=TYPED)
        assert answer.headers["location"].partition("#")[0] == "/"


async def test_every_page_has_a_policy_that_allows_nothing_inline(tmp_path):
    """Nothing inline, nothing from elsewhere; what never changes may be kept, pages may not."""
    async with site(tmp_path) as (supervisor, browser):
        ana = await browser("ana")
        approval = await an_approval(supervisor)
        for path in (
            "/",
            "/sessions",
            "/sessions/s-bread",
            "/history?text=bread",
            "/rules",
            "/docs",
            f"/approvals/{approval}",
            "/login",
            "/nowhere",
        ):
            answer = await ana.get(path)
            assert "default-src 'none'" in answer.headers["content-security-policy"]
            assert answer.headers["cache-control"] == "no-store"
        page = (await ana.get("/")).text
        for address in re.findall(r'"(/static/[^"]+)"', page):
            kept = await ana.get(address)
            assert kept.status_code == 200
            assert "immutable" in kept.headers["cache-control"]
        assert (await ana.get("/static/..%2frendering.py")).status_code == 404


async def test_forged_forms_and_refused_decisions_change_nothing_and_are_recorded(tmp_path):
    """A4, A15: no token of ours, another site's page, the wrong role: refused, and kept in the audit trail."""
    async with site(tmp_path) as (supervisor, browser):
        approval = await an_approval(supervisor)
        place = f"/approvals/{approval}/decision"
        ana, eve = await browser("ana"), await browser("eve")
        await ana.get("/")
        page = await eve.get("/")
        assert 'value="approve"' not in page.text
        answers = [
            await ana.post(place, decision="approve", csrf="forged"),
            await ana.post(place, decision="approve", origin="https://evil.example"),
            await ana.post(place, decision="approve", origin="null"),
            await eve.post(place, decision="approve"),
        ]
        assert [answer.status_code for answer in answers] == [403] * 4
        assert (await supervisor.get_approval(approval)).status == "pending"
        refused = [row.event.by for row in await supervisor.find_audit() if isinstance(row.event, DecisionRefused)]
        assert refused == ["ana", "eve"]


async def test_a_late_form_is_told_who_was_faster(tmp_path):
    """A3: the same again is fine, another is a conflict, what does not fit decides nothing, unknown is unknown."""
    async with site(tmp_path) as (supervisor, browser):
        approval = await an_approval(supervisor)
        place = f"/approvals/{approval}/decision"
        bob = await browser("bob")
        await bob.get("/")
        assert (await bob.post(place, decision="edit", arguments="{")).status_code == 422
        await supervisor.decide(approval, Approve(by="ana"))
        assert (await bob.post(place, decision="approve")).status_code == 200
        late = await bob.post(place, decision="deny")
        assert late.status_code == 409
        assert "ana" in late.text
        assert (await bob.post("/approvals/nothing/decision", decision="deny")).status_code == 404


async def test_the_history_says_who_decided_where_and_what_came_of_it(tmp_path):
    """A search has all states, the newest first, page by page; a wrong one is told so, hostile words stay words."""
    async with site(tmp_path) as (supervisor, browser):
        ana = await browser("ana")
        for number in range(27):
            asked = await an_approval(supervisor, f"bread{number}")
            await supervisor.decide(asked, Deny(by="bob", reason="stale"), channel="web")
        asked = await an_approval(supervisor, "jam")
        await until_shown(supervisor, await supervisor.get_approval(asked), "web", 30)
        await supervisor.decide(asked, Approve(by="ana"), channel="web")
        while "ok" not in (jam := (await ana.get("/history?text=jam&by=ana")).text):
            await anyio.sleep(0.01)
        assert jam.count("<article") == 1
        course = re.sub(r"<[^>]+>", "", "; ".join(re.findall(r"(?s)<li>(.+?)</li>", jam)))
        assert re.fullmatch(r"shown in web ; approved by ana \(web\); note: ok: noted jam", course)
        first = (await ana.get("/history?by=bob&text=bread")).text
        older = html.unescape(re.search(r'href="(/history[^"]+after=[^"]+)"', first)[1])
        assert (first.count("<article"), (await ana.get(older)).text.count("<article")) == (25, 2)
        assert first.index("s-bread26") < first.index("s-bread25")
        for wrong in ("text=%3F", "before=soon", "session=nowhere", "after=x"):
            assert (await ana.get(f"/history?{wrong}")).status_code == 422
        assert "<script>alert" not in (await ana.get("/history?by=<script>alert(1)</script>")).text


async def test_only_operators_speak_cancel_and_revoke(tmp_path):
    """A4 and R7: others are told so, nothing is changed; an operator is told what became of a message."""
    async with site(tmp_path) as (supervisor, browser):
        await an_approval(supervisor)
        bob, ana = await browser("bob"), await browser("ana")
        for path in ("messages", "cancel"):
            await bob.get("/sessions/s-bread")
            assert (await bob.post(f"/sessions/s-bread/{path}", text="hello")).status_code == 403
        assert (await bob.post("/rules/r/revoke")).status_code == 403
        assert "s-bread" in (await ana.get("/sessions?before=999999999999999999")).text
        await ana.get("/sessions/s-bread")
        assert (await ana.post("/sessions/s-bread/cancel", reason="enough")).status_code == 303
        assert "enough" in (await ana.get("/sessions/s-bread")).text
        assert list(await supervisor.find_approvals()) == []


async def test_a_cancel_ends_the_run_that_the_page_has_shown_and_no_later_one(tmp_path):
    """A person who sends an old page is shown the run that has begun since, which goes on."""
    async with site(tmp_path) as (supervisor, browser):
        run = await supervisor.start("listening", "one", session="s-bread")
        ana = await browser("ana")
        while (await ana.get("/sessions/s-bread")).status_code == 503:  # the channel starts
            await anyio.sleep(0.01)
        await supervisor.send("s-bread", "end", by="ana")
        await run.outcome()
        assert (await supervisor.send("s-bread", "two", by="ana")).kind == "begun"
        for old in ({}, {"run": ""}, {"run": "9" * 5000}):
            answer = await ana.post("/sessions/s-bread/cancel", **old)
            assert (answer.status_code, "Run 2 was not on your page yet" in answer.text) == (409, True)
        assert (await supervisor.get_session("s-bread")).outcome is None
        await ana.get("/sessions/s-bread")
        assert (await ana.post("/sessions/s-bread/cancel")).status_code == 303
        assert (await (await supervisor.get_run("s-bread")).outcome()).kind == "cancelled"


async def test_a_text_sent_on_the_page_of_a_session_is_a_chat_word_or_a_message(tmp_path):
    """A12, R7: a bare word decides what the page had shown; everything else is sent, and the reply says what became of
    it. A word that came too early, or could mean several, lists what waits."""
    async with site(tmp_path) as (supervisor, browser):
        approval = await an_approval(supervisor)
        ana = await browser("ana")
        early = await ana.get("/sessions/s-bread")
        while not (await supervisor.get_approval(approval)).shown:
            await anyio.sleep(0.01)
        place = "/sessions/s-bread/messages"
        listed = await ana.post(place, text="yes", seen="2020-01-01T00:00:00+00:00")
        assert listed.status_code == early.status_code == 200
        assert f"(yes {approval[16:24]})" in listed.text
        assert (await ana.post(place, text="yes", seen="nonsense")).status_code == 200
        assert (await supervisor.get_approval(approval)).status == "pending"
        await ana.get("/sessions/s-bread")
        answer = await ana.post(place, text="do NOT approve that")
        assert answer.headers["location"] == "/sessions/s-bread?said=kept#reply"
        assert "<textarea" in (await ana.get("/sessions/s-bread?said=kept")).text
        answer = await ana.post(place, text=" Yes ")
        assert answer.headers["location"] == "/sessions/s-bread?said=decided#reply"
        assert (await supervisor.get_approval(approval)).by == "ana"


@pytest.mark.parametrize(("agent", "given", "hears"), [(chatting, "hello", True), (asking_many, 0, False)])
async def test_only_a_session_that_can_receive_has_a_reply_form(agent, given, hears):
    """The page of an ended session whose agent takes no text has no field for messages."""
    async with world() as here, here.client() as client:
        await log_in(client)
        run = await here.supervisor.start(agent, given, requester="olga")
        await run.outcome()
        page = (await client.get(f"/sessions/{run.session}")).text
        assert (f'action="/sessions/{run.session}/messages"' in page) == hears


async def test_an_approver_may_use_chat_words_on_the_page_of_a_session(tmp_path):
    """A12: an approver's chat word decides there as over HTTP; other people are refused."""
    async with site(tmp_path) as (supervisor, browser):
        approval = await an_approval(supervisor)
        for name, status in (("eve", 403), ("bob", 200)):
            someone = await browser(name)
            await someone.get("/sessions/s-bread")
            said = await someone.client.post(
                "/sessions/s-bread/messages",
                data={"csrf": someone.csrf, **someone.hidden, "text": f"no {approval}"},
                headers={"origin": ORIGIN, "x-requested-by": "page"},
            )
            assert said.status_code == status
        assert (await supervisor.get_approval(approval)).by == "bob"


@agent
async def costly(ctx: Context) -> str:
    await ctx.used(Usage("m", 1, 90, 0, 10, 0.25))
    return (await ctx.call(note, "x", "/dev/null")).kind


async def test_the_inbox_and_the_pages_of_sessions_show_what_was_spent(tmp_path):
    async with site(tmp_path) as (supervisor, browser):
        run = await supervisor.start(costly, session="s")
        asked = await next_of(run.watch_approvals())
        ana = await browser("ana")
        for path in ("/", "/sessions", "/sessions/s"):
            assert "0.25 USD" in (await ana.get(path)).text
        others = [await supervisor.start(costly, session=f"s{number}") for number in range(OPEN_CARDS)]
        for other in others:
            await next_of(other.watch_approvals())
        assert (await ana.get("/")).text.count("spent 0.25 USD") == len(others) + 1, "of folded rows, too"
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await run.result() == "ok"


def noted_by(text: str) -> str:
    return f"it would note {text}"


@tool(preview=noted_by)
async def note_seen(text: str) -> str:
    return f"noted {text}"


@agent
async def noting_seen(ctx: Context) -> str:
    return (await ctx.call(note_seen, "bread")).content


async def test_an_edit_on_the_page_shows_its_evidence_and_the_same_form_again_confirms_it(tmp_path):
    """A18: the page keeps what was typed, and the code of the evidence; another text is looked at anew."""
    async with site(tmp_path) as (supervisor, browser):
        run = await supervisor.start(noting_seen, session="s", requester="ana")
        place = f"/approvals/{(await next_of(supervisor.watch_approvals())).id}/decision"
        bob = await browser("bob")
        await bob.get("/")
        first = await bob.post(place, decision="edit", arguments='{"text": "salt"}')
        assert first.status_code == 202
        assert "it would note salt" in first.text
        seen = re.search(r'name="seen" value="([^"]+)"', first.text)[1]
        other = await bob.post(place, decision="edit", arguments='{"text": "milk"}', seen=seen)
        assert "it would note milk" in other.text
        await bob.post(place, decision="edit", arguments='{"text": "salt"}', seen=seen)
        assert await run.result() == "noted salt"


async def test_the_first_rows_of_many_are_sent_before_the_rest_is_drawn():
    """A browser shows them while the others come; what is sent is compressed if the browser takes that."""
    async with world() as here, here.client("olga") as client:
        await here.supervisor.start(asking_many, 200, requester="olga")
        async with here.supervisor.watch_approvals() as watch:
            for _ in range(200):
                await anext(watch)
        sent = []

        async def send(message):
            sent.append(message.get("body", b""))

        given = [(b"host", HOST.encode()), (b"authorization", b"Bearer olga")]
        scope = {"type": "http", "method": "GET", "path": "/", "headers": given, "query_string": b""}
        await here.app(scope, anyio.sleep_forever, send)
        _, first, *rest = sent
        assert 0 < first.count(b"<article") < 20
        assert len(first) < 20_000
        assert b"".join([first, *rest]).count(b"<article") == 200
        answer = await client.get("/")
        assert answer.headers["content-encoding"] == "gzip"
        assert answer.text.count("<article") == 200
        assert answer.num_bytes_downloaded < len(answer.content) / 8


async def test_a_brief_stream_shows_nothing_of_what_would_run():
    """A page hears only that something has changed: a long call is not sent again, and counts as not shown."""
    async with world() as here, anyio.create_task_group() as tasks:
        asked = await here.ask(text="x" * 45_000)
        heard = []

        async def send(message):
            heard.append(message.get("body", b""))
            if b"event: approval" in heard[-1]:
                tasks.cancel_scope.cancel()

        given = [(b"host", HOST.encode()), (b"authorization", b"Bearer olga")]
        scope = {
            "type": "http",
            "method": "GET",
            "path": "/api/events",
            "headers": given,
            "query_string": b"brief=true",
        }
        await here.app(scope, anyio.sleep_forever, send)
    assert asked.id in heard[-1].decode()
    assert len(heard[-1]) < 500
    assert not here.site.shown.to("olga")


async def test_a_person_on_a_page_is_on_what_it_names_and_nothing_else(tmp_path):
    """A10: who may not decide it is refused, a form without a word does nothing, and an unknown id is said."""
    async with site(tmp_path) as (supervisor, browser):
        first = await an_approval(supervisor)
        other = await supervisor.start(noting, {"milk": "/dev/null"}, requester="ana")
        second = (await next_of(other.watch_approvals())).id
        named = {f"one.{first}": ""}
        for name, form, status in (
            ("eve", {"hush": "on", **named}, 403),
            ("bob", named, 422),
            ("bob", {"hush": "on"}, 422),
            ("bob", {"hush": "on", "one.unknown": ""}, 404),
        ):
            someone = await browser(name)
            assert (await someone.post("/hushes", **form)).status_code == status
        bob = await browser("bob")
        assert "You are on it" in (await bob.post("/hushes", hush="on", **named)).text
        assert "You hear nothing of it until" in (await bob.post("/hushes", hush="30", **named)).text
        approval = await supervisor.get_approval(first)
        assert (approval.status, approval.acknowledged.by, approval.snoozed[0].by) == ("pending", "bob", "bob")
        page = (await bob.get("/")).text
        assert "bob is on it" in page
        assert "bob hears of it after" in page
        assert (await supervisor.get_approval(second)).acknowledged is None
        await supervisor.decide(first, Deny(by="ana"))
        assert "Nothing of that waits any more" in (await bob.post("/hushes", hush="on", **named)).text
