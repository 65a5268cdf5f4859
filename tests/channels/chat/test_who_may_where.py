"""Who may do what, on every surface alike: one table, and each surface is held against it (A4).

The commands refuse, so the surfaces here take every person for an operator, and hide nothing.
What counts is what is on disk afterwards, and that the audit trail has each refused decision of a known person.
"""

import itertools
import json
import re
import socket
from contextlib import ExitStack, asynccontextmanager, suppress

import anyio
import fake_discord
import fake_slack
import httpx
import pytest
from platform_scenes import until
from watching import next_of

from supervisor import (
    Approve,
    Context,
    MemoryStore,
    NotAuthenticated,
    NotEntitled,
    agent,
    ask,
    deny,
    open_supervisor,
    tool,
)
from supervisor.channels.discord import Discord
from supervisor.channels.slack import Slack
from supervisor.channels.web import make_web
from supervisor.cli import main
from supervisor.client.addresses import Address
from supervisor.client.connection import Connection
from supervisor.client.remote import RemoteSupervisor
from supervisor.core import events as e
from supervisor.core.approvals.people import ApproverRule, People, Person, TokenHash, hash_token

pytestmark = pytest.mark.anyio

ROLES = {"olga": "operator", "ana": "approver", "cleo": "approver who is named", "bob": "requester", "nobody": None}
MAY_DECIDE = {
    # what is:   free, others'  free, own  reserved, others'  reserved, own
    "olga": (True, True, True, True),
    "ana": (True, True, False, False),
    "cleo": (True, True, True, True),
    "bob": (False, True, False, False),
    "nobody": (False, False, False, False),
}
"""Once, and by "approve all". What is reserved is for cleo."""
MAY = {
    "start": {"olga"},
    "speak": {"olga"},
    "cancel": {"olga"},
    "resume": {"olga"},
    "retry": {"olga"},
    "fork": {"olga"},
    "make a rule": {"olga"},
    "allow by words": {"olga", "cleo"},
    "revoke a rule": {"olga"},
    "read": {"olga", "ana", "cleo", "bob"},
}
CASES = list(itertools.product(("staging", "production"), ("others", "own")))
"""Whether what is asked is reserved, and on whose behalf it is asked."""


def requester_of(who, whose):
    """Return the requester of a call: the person themselves, or another person."""
    return who if whose == "own" and who != "nobody" else "somebody"


def person(name, *roles):
    identities = {"slack": f"U-{name.upper()}", "discord": DISCORD[name]}
    return Person(name=name, roles=roles, tokens=(TokenHash(hash_token(name)),), identities=identities)


DISCORD = {name: str(700 + number) for number, name in enumerate(ROLES)}
PEOPLE = People(
    [person("olga", "operator"), person("ana", "approver"), person("cleo", "approver"), person("bob")],
    [ApproverRule(approvers=("cleo",), rule=ask("deploy", '{"target": "production"}'))],
)
OPERATORS = People(person(name, "operator") for name in ("olga", "ana", "cleo", "bob"))


@tool
async def deploy(target: str) -> str:
    return target


@agent
async def talking(ctx: Context, text: str) -> str:
    return (await ctx.call(deploy, text)).kind


@agent
async def failing(ctx: Context) -> None:
    raise ValueError("not today")


async def is_allowed(command):
    """Whether a command is not refused."""
    try:
        await command
    except NotEntitled:
        return False
    return True


class World:
    """A supervisor with a web inbox and perhaps a chat platform, and ways to act there as a person."""

    def __init__(self, supervisor, web, chat, fake):
        self.supervisor = supervisor
        self.target, self.requester = "staging", "somebody"
        self.chat = chat
        self.fake = fake
        self._app = web._app
        self._numbers = itertools.count(1)

    async def ask(self):
        """Begin a session that asks, in a thread of its own if Slack is there, and return what it asks."""
        session = f"slack-c1-17000000{next(self._numbers):02}.000001"
        run = await self.supervisor.start(talking, self.target, session=session, requester=self.requester)
        asked = await next_of(run.watch_approvals())
        await until(lambda: self.supervisor.reader.get_approval(asked.id).shown)
        return asked

    def client(self, who):
        headers = {} if who == "nobody" else {"authorization": f"Bearer {who}"}
        return httpx.AsyncClient(transport=httpx.ASGITransport(self._app), base_url="http://localhost", headers=headers)

    async def post(self, who, path, **body):
        async with self.client(who) as client:
            return await client.post(path, json=body)

    async def remotely(self, who, do):
        """Do something as a person by the Supervisor over HTTP."""
        connection = Connection(Address("http://localhost", False), who, 5.0, httpx.ASGITransport(self._app))
        try:
            with suppress(NotEntitled, NotAuthenticated):
                await connection.greet()
                await do(RemoteSupervisor(connection))
        finally:
            await connection.leave()

    async def form(self, who, page, path, **fields):
        """Read a page as a person who is logged in, and send a form of it."""
        headers = {"origin": "http://localhost"}
        async with self.client("nobody") as browser:
            login = await browser.post("/login", data={"token": who}, headers=headers)
            csrf = login.headers.get("location", "").partition("#csrf=")[2]
            shown = (await browser.get(page)).text
            hidden = dict(re.findall(r'type="hidden" name="(seen)"[^>]* value="([^"]*)"', shown))
            return await browser.post(path, data={"csrf": csrf, **hidden, **fields}, headers=headers)

    async def give(self, request):
        """Bring the chat channel what its platform would send."""
        reply = await self.chat.webhooks()[0].receive(*request)
        assert reply.status == 200
        return reply.body.decode()

    def refused(self, approval):
        rows = [row.event for row in self.supervisor.store.rows(0)]
        return [row.by for row in rows if isinstance(row, e.DecisionRefused) and row.approval == approval]

    def refused_commands(self):
        rows = [row.event for row in self.supervisor.store.rows(0)]
        return [row.by for row in rows if isinstance(row, e.CommandRefused)]

    async def settled(self, approval):
        """Wait until a chat channel has done with what it was told about an approval."""
        await until(lambda: self.supervisor.reader.get_approval(approval).status != "pending" or self.refused(approval))


@asynccontextmanager
async def world(platform=None, surfaces=OPERATORS):
    """`surfaces`: the people and roles that the surfaces know. The commands know PEOPLE."""
    with ExitStack() as stack, anyio.fail_after(120):
        fake = chat = None
        if platform == "slack":
            fake = stack.enter_context(fake_slack.serving(fake_slack.FakeSlack()))
            given = {"token": fake_slack.TOKEN, "signing_secret": fake_slack.SECRET, "conversation": "C1"}
            chat = Slack(**given, people=surfaces, base_url=fake.url, agent=talking)
        if platform == "discord":
            fake = stack.enter_context(fake_discord.serving(fake_discord.FakeDiscord()))
            given = {"application": fake_discord.APPLICATION, "public_key": fake_discord.PUBLIC_KEY}
            given |= {"token": fake_discord.TOKEN, "conversation": "77"}
            chat = Discord(**given, people=surfaces, base_url=fake.url, agent=talking)
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        web = make_web(people=surfaces, secret=b"x" * 32, listener=listener, hosts=["localhost"])
        channels = [web] if chat is None else [chat, web]
        async with open_supervisor(MemoryStore(), agents=[talking], channels=channels, people=PEOPLE) as supervisor:
            await until(lambda: web.site.serving is not None and (chat is None or chat._tasks is not None))
            yield World(supervisor, web, chat, fake)
            for view in await supervisor.find_sessions(is_open=True):
                await supervisor.cancel(view.id, by="olga")


# -- how each surface decides ------------------------------------------------------------------------------------------


async def by_http(here, who, asked):
    await here.post(who, f"/api/approvals/{asked.id}/decision", decision="approve")


async def by_http_in_the_session(here, who, asked):
    await here.post(who, f"/api/sessions/{asked.session}/approve", approval=asked.id)


async def by_words_over_http(here, who, asked):
    await here.post(who, f"/api/sessions/{asked.session}/messages", text=f"yes {asked.id}")


async def by_approve_all_over_http(here, who, asked):
    async with here.client(who) as client:
        await client.get(f"/api/approvals/{asked.id}")
        await client.post(f"/api/sessions/{asked.session}/messages", json={"text": "approve all"})


async def by_a_form(here, who, asked):
    await here.form(who, f"/approvals/{asked.id}", f"/approvals/{asked.id}/decision", decision="approve")


async def by_words_on_the_page(here, who, asked):
    page = f"/sessions/{asked.session}"
    await here.form(who, page, f"{page}/messages", text=f"yes {asked.id}")


async def by_approve_all_on_the_page(here, who, asked):
    page = f"/sessions/{asked.session}"
    await here.form(who, page, f"{page}/messages", text="approve all")


async def by_a_press_in_slack(here, who, asked):
    (card,) = (each for each in here.fake.messages["C1"] if asked.id in str(each["blocks"]))
    await here.give(here.fake.press(card, "approve.0", f"U-{who.upper()}"))
    await here.settled(asked.id)


async def say_in_slack(here, who, asked, text):
    thread = asked.session.rpartition("-")[2]
    await here.give(here.fake.say(text, f"U-{who.upper()}", f"{2_000_000_000 + next(here._numbers)}.000001", thread))


async def by_words_in_slack(here, who, asked):
    await say_in_slack(here, who, asked, f"yes {asked.id}")
    await here.settled(asked.id)


async def by_approve_all_in_slack(here, who, asked):
    await say_in_slack(here, who, asked, "approve all")
    await here.settled(asked.id)


async def by_a_command_in_slack(here, who, asked):
    await here.give(here.fake.command(f"approve {asked.id}", f"U-{who.upper()}"))
    await here.settled(asked.id)


async def by_a_press_in_discord(here, who, asked):
    (card,) = (each for each in here.fake.messages.values() if asked.id in str(each["components"]))
    await here.give(here.fake.press(card, "approve.0", DISCORD[who]))
    await here.settled(asked.id)


async def by_a_command_in_discord(here, who, asked):
    await here.give(here.fake.command("approve", DISCORD[who], id=asked.id))
    await here.settled(asked.id)


async def in_python(here, who, asked):
    try:
        await here.supervisor.decide(asked.id, Approve(by=who))
    except NotEntitled:
        assert here.refused(asked.id) == [who]


async def from_another_machine(here, who, asked):
    await here.remotely(who, lambda remote: remote.decide(asked.id, Approve(by=who)))


async def by_words_from_another_machine(here, who, asked):
    await here.remotely(who, lambda remote: remote.chat(asked.session, f"yes {asked.id}", by=who))


async def by_approve_all_from_another_machine(here, who, asked):
    await here.remotely(who, lambda remote: remote.chat(asked.session, "approve all", by=who))


WAYS_TO_DECIDE = {
    None: [
        *(from_another_machine, by_words_from_another_machine, by_approve_all_from_another_machine),
        *(by_http, by_http_in_the_session, by_words_over_http, by_approve_all_over_http, in_python),
        *(by_a_form, by_words_on_the_page, by_approve_all_on_the_page),
    ],
    "slack": [by_a_press_in_slack, by_words_in_slack, by_approve_all_in_slack, by_a_command_in_slack],
    "discord": [by_a_press_in_discord, by_a_command_in_discord],
}
DECIDING = [(platform, way) for platform, ways in WAYS_TO_DECIDE.items() for way in ways]


@pytest.mark.parametrize(("platform", "way"), DECIDING, ids=[way.__name__ for _, way in DECIDING])
async def test_each_way_to_decide_asks_for_entitlement(platform, way):
    """The same people decide the same things on every surface; the audit trail has each refused person."""
    found, unheard = {}, []
    async with world(platform) as here:
        for who in ROLES:
            row = []
            for target, whose in CASES:
                here.target, here.requester = target, requester_of(who, whose)
                asked = await here.ask()
                await way(here, who, asked)
                now = await here.supervisor.get_approval(asked.id)
                row.append((now.status, now.by) == ("approved", who))
                assert row[-1] or now.status == "pending"
                if not row[-1] and who != "nobody" and who not in here.refused(asked.id):
                    unheard.append((who, target, whose))
            found[who] = tuple(row)
    assert (found, unheard) == (MAY_DECIDE, [])


# -- an edit into what is reserved for others --------------------------------------------------------------------------

INTO = {"target": "production"}


async def edit_over_http(here, who, asked):
    await here.post(who, f"/api/approvals/{asked.id}/decision", decision="approve", arguments=INTO)


async def edit_from_another_machine(here, who, asked):
    await here.remotely(who, lambda remote: remote.decide(asked.id, Approve(by=who, arguments=INTO)))


async def edit_on_the_page(here, who, asked):
    form = {"decision": "edit", "arguments": json.dumps(INTO)}
    await here.form(who, f"/approvals/{asked.id}", f"/approvals/{asked.id}/decision", **form)


async def edit_in_python(here, who, asked):
    with suppress(NotEntitled):
        await here.supervisor.decide(asked.id, Approve(by=who, arguments=INTO))


async def edit_in_slack(here, who, asked):
    (card,) = (each for each in here.fake.messages["C1"] if asked.id in str(each["blocks"]))
    await here.give(here.fake.press(card, "edit", f"U-{who.upper()}"))
    await until(lambda: here.fake.views or here.refused(asked.id))
    if here.fake.views:
        await here.give(here.fake.submit(here.fake.views.pop(), json.dumps(INTO), f"U-{who.upper()}"))
        await here.settled(asked.id)


async def edit_in_discord(here, who, asked):
    (card,) = (each for each in here.fake.messages.values() if asked.id in str(each["components"]))
    answer = json.loads(await here.give(here.fake.press(card, "edit", DISCORD[who])))
    if "custom_id" in answer["data"]:
        await here.give(here.fake.submit(answer["data"], json.dumps(INTO), DISCORD[who]))
        await here.settled(asked.id)


EDITING = [(None, edit_from_another_machine), (None, edit_over_http), (None, edit_on_the_page), (None, edit_in_python)]
EDITING += [("slack", edit_in_slack), ("discord", edit_in_discord)]


@pytest.mark.parametrize(("platform", "way"), EDITING, ids=[way.__name__ for _, way in EDITING])
async def test_no_surface_lets_a_person_edit_a_call_into_a_reserved_one(platform, way):
    """A person who may decide what was asked may not therefore decide on it as edited (A8). A surface that hides its
    form has the refusal in the audit trail, too."""
    did = set()
    async with world(platform, PEOPLE) as here:
        for who in ROLES:
            here.requester = who
            asked = await here.ask()
            await way(here, who, asked)
            now = await here.supervisor.get_approval(asked.id)
            did |= {who} if (now.status, now.arguments) == ("approved", INTO) else set()
            assert who in did or (now.status == "pending" and (who == "nobody" or who in here.refused(asked.id)))
    assert did == {"olga", "cleo"}


# -- everything else ---------------------------------------------------------------------------------------------------


async def start_over_http(here, who):
    await here.post(who, "/api/sessions", agent="talking", input="hello")
    return len(await here.supervisor.find_sessions()) == 1


async def start_from_another_machine(here, who):
    await here.remotely(who, lambda remote: remote.start("talking", "hello"))
    return len(await here.supervisor.find_sessions()) == 1


async def start_in_slack(here, who):
    await here.give(here.fake.say("<@UBOT> hello", f"U-{who.upper()}", "2000000000.000001", mention=True))
    await until(lambda: here.supervisor.store.find_sessions() or here.fake.whispers)
    return len(await here.supervisor.find_sessions()) == 1


async def start_in_discord(here, who):
    await here.give(here.fake.command("start", DISCORD[who], text="hello"))
    return len(await here.supervisor.find_sessions()) == 1


def was_said(here, session, who):
    rows = [row.event for row in here.supervisor.store.journal(session)]
    return [each.by for each in rows if isinstance(each, e.MessageReceived)] == [who]


async def start_in_python(here, who):
    await is_allowed(here.supervisor.start(talking, "hello", by=who))
    return len(await here.supervisor.find_sessions()) == 1


async def speak_over_http(here, who):
    asked = await here.ask()
    await here.post(who, f"/api/sessions/{asked.session}/messages", text="and then?")
    return was_said(here, asked.session, who)


async def speak_from_another_machine(here, who):
    asked = await here.ask()
    await here.remotely(who, lambda remote: remote.send(asked.session, "yes"))
    return was_said(here, asked.session, who)


async def chat_from_another_machine(here, who):
    asked = await here.ask()
    await here.remotely(who, lambda remote: remote.chat(asked.session, "and then?"))
    return was_said(here, asked.session, who)


async def speak_on_the_page(here, who):
    page = f"/sessions/{(asked := await here.ask()).session}"
    await here.form(who, page, f"{page}/messages", text="and then?")
    return was_said(here, asked.session, who)


async def speak_in_slack(here, who):
    asked = await here.ask()
    await say_in_slack(here, who, asked, "and then?")
    await until(lambda: here.fake.whispers)
    return was_said(here, asked.session, who)


async def speak_in_python(here, who):
    session = (await here.ask()).session
    await is_allowed(here.supervisor.send(session, "and then?", by=who))
    return was_said(here, session, who)


async def chat_in_python(here, who):
    session = (await here.ask()).session
    await is_allowed(here.supervisor.chat(session, "and then?", by=who))
    return was_said(here, session, who)


def is_cancelled(here, asked):
    return here.supervisor.reader.get_approval(asked.id).status == "withdrawn"


async def cancel_over_http(here, who):
    asked = await here.ask()
    await here.post(who, f"/api/sessions/{asked.session}/cancel")
    return is_cancelled(here, asked)


async def cancel_from_another_machine(here, who):
    asked = await here.ask()
    await here.remotely(who, lambda remote: remote.cancel(asked.session))
    return is_cancelled(here, asked)


async def cancel_on_the_page(here, who):
    page = f"/sessions/{(asked := await here.ask()).session}"
    await here.form(who, page, f"{page}/cancel", run="1")
    return is_cancelled(here, asked)


async def cancel_in_python(here, who):
    asked = await here.ask()
    await is_allowed(here.supervisor.cancel(asked.session, by=who))
    return is_cancelled(here, asked)


async def resume_over_http(here, who):
    asked = await here.ask()
    paths = (f"/api/sessions/{asked.session}/resume", "/api/resume")
    return [(await here.post(who, path)).status_code for path in paths] == [200, 200]


async def resume_in_python(here, who):
    session, supervisor = (await here.ask()).session, here.supervisor
    one = await is_allowed(supervisor.resume(session, by=who))
    assert await is_allowed(supervisor.resume_all(by=who)) == one
    return one


async def failed(here):
    """Let a session fail, and return its id."""
    run = await here.supervisor.start(failing)
    await run.outcome()
    return run.session


def runs_of(here, session):
    rows = [row.event for row in here.supervisor.store.journal(session)]
    return sum(isinstance(each, e.RunStarted) for each in rows)


async def retry_over_http(here, who):
    session = await failed(here)
    await here.post(who, f"/api/sessions/{session}/retry")
    return runs_of(here, session) == 2


async def retry_in_python(here, who):
    session = await failed(here)
    await is_allowed(here.supervisor.retry(session, by=who))
    return runs_of(here, session) == 2


async def fork_over_http(here, who):
    await here.post(who, f"/api/sessions/{(await here.ask()).session}/fork", before=4)
    return len(await here.supervisor.find_sessions()) == 2


async def fork_in_python(here, who):
    await is_allowed(here.supervisor.fork((await here.ask()).session, before=4, by=who))
    return len(await here.supervisor.find_sessions()) == 2


async def make_a_rule_over_http(here, who):
    await here.post(who, "/api/rules", kind="deny", tool="deploy")
    return len(await here.supervisor.find_rules()) == 1


async def make_a_rule_from_another_machine(here, who):
    await here.remotely(who, lambda remote: remote.add_rule(deny("deploy")))
    return len(await here.supervisor.find_rules()) == 1


async def make_a_rule_by_words(here, who):
    """What a card offers for the session may be granted by words, too, by whom no reservation leaves out."""
    asked = await here.ask()
    async with here.client(who) as client:
        await client.get(f"/api/approvals/{asked.id}")
        await client.post(f"/api/sessions/{asked.session}/messages", json={"text": "approve all for session"})
    return len(await here.supervisor.find_rules()) == 1


async def make_a_rule_by_words_in_slack(here, who):
    asked = await here.ask()
    await say_in_slack(here, who, asked, "approve all for session")
    await here.settled(asked.id)
    await until(lambda: here.fake.whispers)
    return len(await here.supervisor.find_rules()) == 1


async def make_a_rule_in_python(here, who):
    await is_allowed(here.supervisor.add_rule(deny("deploy"), by=who))
    return len(await here.supervisor.find_rules()) == 1


async def revoke_a_rule_over_http(here, who):
    made = await here.supervisor.add_rule(deny("deploy"), by="olga")
    async with here.client(who) as client:
        await client.delete(f"/api/rules/{made.id}")
    return list(await here.supervisor.find_rules()) == []


async def revoke_a_rule_from_another_machine(here, who):
    made = await here.supervisor.add_rule(deny("deploy"), by="olga")
    await here.remotely(who, lambda remote: remote.revoke_rule(made.id))
    return len(await here.supervisor.find_rules()) == 0


async def revoke_a_rule_on_the_page(here, who):
    made = await here.supervisor.add_rule(deny("deploy"), by="olga")
    await here.form(who, "/rules", f"/rules/{made.id}/revoke")
    return list(await here.supervisor.find_rules()) == []


async def revoke_a_rule_in_python(here, who):
    made = await here.supervisor.add_rule(deny("deploy"), by="olga")
    await is_allowed(here.supervisor.revoke_rule(made.id, by=who))
    return len(await here.supervisor.find_rules()) == 0


async def read_over_http(here, who):
    session = f"/api/sessions/{(await here.ask()).session}"
    async with here.client(who) as client:
        paths = (session, f"{session}/journal", "/api/approvals", "/api/rules", "/metrics")
        return [(await client.get(path)).status_code for path in paths] == [200] * 5


async def read_on_the_page(here, who):
    asked = await here.ask()
    async with here.client("nobody") as browser:
        await browser.post("/login", data={"token": who}, headers={"origin": "http://localhost"})
        pages = [(await browser.get(path)).text for path in ("/", f"/sessions/{asked.session}")]
    return all(asked.id in page for page in pages)


async def read_in_slack(here, who):
    asked = await here.ask()
    return asked.id in await here.give(here.fake.command("pending", f"U-{who.upper()}"))


async def read_in_discord(here, who):
    asked = await here.ask()
    return asked.id in await here.give(here.fake.command("pending", DISCORD[who]))


WAYS = {
    "start": {
        None: [start_over_http, start_in_python, start_from_another_machine],
        "slack": [start_in_slack],
        "discord": [start_in_discord],
    },
    "speak": {
        None: [
            *(speak_over_http, speak_on_the_page, speak_in_python, chat_in_python),
            *(speak_from_another_machine, chat_from_another_machine),
        ],
        "slack": [speak_in_slack],
    },
    "cancel": {None: [cancel_over_http, cancel_on_the_page, cancel_in_python, cancel_from_another_machine]},
    "resume": {None: [resume_over_http, resume_in_python]},
    "retry": {None: [retry_over_http, retry_in_python]},
    "fork": {None: [fork_over_http, fork_in_python]},
    "make a rule": {
        None: [make_a_rule_from_another_machine, make_a_rule_over_http, make_a_rule_in_python],
    },
    "allow by words": {None: [make_a_rule_by_words], "slack": [make_a_rule_by_words_in_slack]},
    "revoke a rule": {
        None: [
            *(revoke_a_rule_over_http, revoke_a_rule_on_the_page),
            *(revoke_a_rule_in_python, revoke_a_rule_from_another_machine),
        ]
    },
    "read": {None: [read_over_http, read_on_the_page], "slack": [read_in_slack], "discord": [read_in_discord]},
}
DOING = [
    (action, platform, way)
    for action, by_platform in WAYS.items()
    for platform, ways in by_platform.items()
    for way in ways
]


@pytest.mark.parametrize(("action", "platform", "way"), DOING, ids=[way.__name__ for *_, way in DOING])
async def test_each_other_command_asks_for_entitlement(action, platform, way):
    """The same on every surface that has the action, for whomever the call is asked and whether it is reserved. The
    audit trail has each refused person."""
    may, unheard = set(), set()
    for who, (target, whose) in itertools.product(ROLES, CASES):
        async with world(platform) as here:
            here.target, here.requester = target, requester_of(who, whose)
            if await way(here, who):
                may.add((who, target, whose))
            elif who != "nobody" and who not in here.refused_commands() and "words" not in way.__name__:
                unheard.add((who, target, whose))
    assert unheard == set(), "a word that makes no rule is a decision"
    assert may == {(who, *case) for who in MAY[action] for case in CASES}


def test_a_user_who_can_write_the_store_is_its_operator(tmp_path):
    """On the command line `--by` is a name for the audit trail: reservations are of who serves, not of the store."""
    store = tmp_path / "state.db"

    async def ask():
        async with open_supervisor(store) as supervisor:
            run = await supervisor.start(talking, "production", requester="somebody")
            return (await next_of(run.watch_approvals())).id

    asked = anyio.run(ask)
    assert main(["approve", asked, "--by", "anybody", "--store", str(store)]) == 0
