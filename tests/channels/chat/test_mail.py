"""E-mail: people are told that an approval waits, and where; no message and no link in it decides."""

import socket
import threading
from email.utils import parseaddr

import pytest
from hypothesis import given
from mail_server import PASSWORD, USER, Mailbox, receiving
from msgspec.structs import replace
from platform_scenes import asker, deployer, opened, ran, until
from test_platform_cards import NOW, approvals, decided_ones

from supervisor import Approve, Context, Deny, InvalidInput, MemoryStore, agent, tool
from supervisor.channels.mail import Email, EmailRefused, EmailSettings, SmtpServer
from supervisor.channels.mail.letters import asked_letter, decided_letter, mail_address
from supervisor.channels.sdk import ChannelSetup
from supervisor.core.approvals.people import People, Person

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:Session.login_data:DeprecationWarning")]

PAGE = "https://inbox.example/approvals/"


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    """A server of each kind, for all tests."""
    folders = [tmp_path_factory.mktemp("mail") for _ in range(2)]
    with receiving(folders[0]) as starttls, receiving(folders[1], "tls") as tls:
        yield {"starttls": starttls, "tls": tls}


@pytest.fixture
def box(servers):
    return emptied(servers["tls"])


def emptied(box):
    box.letters.clear()
    box.raw.clear()
    box.refusals.clear()
    return box


def people():
    return People(
        [
            Person(name="ana", roles=("operator",), identities={"email": "ana@example.org"}),
            Person(name="ben", roles=("approver",), identities={"email": "Ben@example.org"}),
            Person(name="cyd", roles=("approver",), identities={"email": "cyd@example.org\r\nBcc: evil@example.org"}),
            Person(name="eve", identities={"email": "eve@example.org"}),
        ]
    )


def server(box, security="tls", **more):
    how = {"host": "127.0.0.1", "port": box.port, "security": security, "ca_file": box.ca_file}
    return SmtpServer(**how | {"user": USER, "password": PASSWORD} | more)


def channel(box, **options):
    how = {"server": server(box), "sender": "supervisor@example.org", "people": people()}
    made = Email(**how | {"link": "https://inbox.example/"} | options)
    made.card_again = 0.05
    return made


def opening(box, store=None, **options):
    chat = channel(box, **options)
    chat._tasks = True  # the scene waits for the tasks of a channel, and this one has none
    return opened(chat, store, people=people())


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_people_who_may_decide_are_told_in_one_thread(servers, security):
    """Who asks what, and a link to the page, which asks for a login; the headers by which programs know and sort it."""
    box = emptied(servers[security])
    async with opening(box, server=server(box, security)) as supervisor:
        run = await supervisor.start(deployer, "x", session="s1")
        to, letter = (await until(lambda: box.letters))[0]
        (approval,) = await supervisor.find_approvals()
        assert sorted(to) == ["Ben@example.org", "ana@example.org"]
        assert (letter["Auto-Submitted"], letter["List-Id"]) == ("auto-generated", "<email.supervisor.example.org>")
        assert letter["References"] == letter["In-Reply-To"] == "<session.s1@example.org>"
        assert letter["Message-ID"] == f"<asked.{approval.id}@example.org>"
        text = letter.get_content()
        assert all(each in text for each in ("deployer asks to call deploy", PAGE + approval.id, '"target"  x'))
        await supervisor.decide(approval.id, Approve(by="ana"))
        await run.result()
        to, letter = (await until(lambda: box.letters[1:]))[0]
    assert (to, letter["References"]) == (["Ben@example.org"], "<session.s1@example.org>")
    assert "approved by ana" in letter.get_content()
    assert ran == ["x 1"]


async def test_a_later_process_sends_no_message_twice(box):
    """R3: the card is on disk; a reminder is a letter of its own."""
    store = MemoryStore()
    async with opening(box, store) as supervisor:
        await supervisor.start(deployer, "x", session="s1")
        await until(lambda: box.letters)
        await until(lambda: "CardPosted" in [type(row.event).__name__ for row in store.journal("s1")])
        (approval,) = await supervisor.find_approvals()
    chat = channel(box)
    assert await chat.post(approval, approval.id) == approval.id
    assert len(box.letters) == 1
    reminded = replace(approval, reminded_at=NOW)
    assert await chat.post(reminded, approval.id) == approval.id
    await chat.remind(reminded, approval.id)
    assert [letter["Message-ID"].split(".")[0] for _, letter in box.letters] == ["<asked", "<reminded"]


@pytest.mark.parametrize("refusal", ["451 later", "550 no", "421 closing"])
async def test_a_message_is_sent_when_the_server_takes_it(box, refusal):
    """A11: a refusal is journaled, and the message is sent again."""
    box.refusals.append(refusal)
    async with opening(box) as supervisor:
        run = await supervisor.start(deployer, "x")
        await until(lambda: box.letters)
        assert "CardFailed" in [type(row.event).__name__ for row in supervisor.store.journal(run.session)]
        await supervisor.decide((await supervisor.find_approvals())[0].id, Deny(by="ana"))
    assert len([letter for _, letter in box.letters if "asked" in letter["Message-ID"]]) == 1


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        ({"ca_file": None}, EmailRefused),
        ({"host": "localhost"}, EmailRefused),
        ({"security": "starttls"}, OSError),
        ({"password": "wrong"}, EmailRefused),
        ({"port": 9}, ConnectionRefusedError),
    ],
    ids=str,
)
async def test_a_server_that_cannot_be_trusted_gets_nothing(box, wrong, kind):
    """The certificate is verified; no error names the password."""
    box.users.clear()
    chat = channel(box, server=server(box, **{"timeout": 0.5} | wrong if "security" in wrong else wrong))
    with pytest.raises(kind) as refused:
        await chat.check()
    assert PASSWORD not in f"{refused.value!r} {chat!r} {chat._server!r}"
    assert (box.letters, bool(box.users)) == ([], "password" in wrong)


async def test_a_check_signs_in(box):
    """It sends nothing."""
    assert await channel(box).check() == "supervisor@example.org by 127.0.0.1"
    assert (box.users[-1], box.letters) == (USER, [])


class Modern(Mailbox):
    """Of a provider that takes no password any more."""

    async def auth_XOAUTH2(self, server, arguments):  # noqa: N802 # aiosmtpd's name
        raise NotImplementedError


async def test_a_server_that_takes_no_password_says_so_and_is_not_tried_again(tmp_path):
    """It is no failure of the network, and only another configuration helps."""
    with receiving(tmp_path, kind=Modern, auth_exclude_mechanism=["PLAIN", "LOGIN"]) as modern:
        chat = channel(modern, server=server(modern, security="starttls"))
        with pytest.raises(EmailRefused, match="takes no password, only XOAUTH2"):
            await chat.check()
    with pytest.raises(EmailRefused, match="takes no password"):  # the server is gone, and is not missed
        await chat.check()


async def test_a_server_without_starttls_gets_nothing():
    """An attacker between could remove the offer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        heard = []

        def answer():
            connection, _ = listener.accept()
            with connection, connection.makefile("rwb") as stream:
                stream.write(b"220 hello\r\n")
                stream.flush()
                for line in stream:
                    heard.append(line)
                    stream.write(b"250 fine\r\n")
                    stream.flush()

        thread = threading.Thread(target=answer)
        thread.start()
        with pytest.raises(EmailRefused):
            await SmtpServer(host="127.0.0.1", port=listener.getsockname()[1], user=USER, password=PASSWORD).check()
        thread.join()
    assert [line[:4] for line in heard] == [b"ehlo"]


@agent
async def opener(ctx: Context, password: str) -> str:
    return (await ctx.call(unlock, "front", password)).kind


@tool(secret=["password"])
async def unlock(door: str, password: str) -> None: ...


async def test_secrets_are_masked(box):
    """A value that only the tool may see is in no message."""
    async with opening(box) as supervisor:
        await supervisor.start(opener, "sesame")
        _, letter = (await until(lambda: box.letters))[0]
        assert "front" in letter.get_content()
        assert b"sesame" not in box.raw[0]
        await supervisor.decide((await supervisor.find_approvals())[0].id, Deny(by="ana"))


async def test_a_question_is_told_with_its_text(box):
    """A question has no arguments."""
    async with opening(box, to=["ops@example.org"]) as supervisor:
        await supervisor.start(asker, ["dev", "prod"])
        to, letter = (await until(lambda: box.letters))[0]
        assert (to, "Which environment?" in letter.get_content()) == (["ops@example.org"], True)
        await supervisor.decide((await supervisor.find_approvals())[0].id, Deny(by="ana"))


@given(approvals(), decided_ones())
def test_no_text_of_an_agent_is_a_header_or_a_line_of_ours(approval, decided):
    """Any name and any question: one subject, known headers, our link first, its own words indented."""
    sender = mail_address("supervisor@example.org")
    for letter in (
        asked_letter(approval, "https://inbox.example", "l.example.org", sender, NOW),
        decided_letter(decided, "https://inbox.example", "l.example.org", sender, NOW),
    ):
        assert {*letter.keys()} == HEADERS
        head = letter.as_bytes().partition(b"\r\n\r\n")[0]
        assert all(32 <= byte < 127 or byte in b"\r\n" for byte in head)
        assert letter["Message-ID"].count("@") == 1
        assert b"\r\nMessage-ID: <" in head
    lines = asked_letter(approval, "https://inbox.example", "l", sender, NOW).get_content().splitlines()
    assert lines[1].endswith(PAGE + approval.id)
    assert all(line.startswith("    ") or "not shown" in line or not line for line in lines[2:])


HEADERS = {"From", "Subject", "Date", "Message-ID", "In-Reply-To", "References", "List-Id", "Auto-Submitted"}
HEADERS |= {"X-Auto-Response-Suppress", "Content-Type", "Content-Transfer-Encoding", "MIME-Version"}


@pytest.mark.parametrize(
    "written", ["", "ana", "a@b\r\nBcc: c@d", "a@b, c@d", "Ana <a@b.c>", "a@b c", "ä@b.c", "@b.c", "a@"]
)
def test_an_address_is_one_address(written):
    """Nothing that is written in a configuration adds a header or a recipient."""
    with pytest.raises(InvalidInput):
        mail_address(written)
    assert parseaddr("ana@example.org")[1] == mail_address("ana@example.org").addr_spec


def test_a_table_makes_the_channel_and_problems_name_their_key(monkeypatch):
    """The password comes from the environment, and is no key of the file."""
    monkeypatch.setenv("EMAIL_PASSWORD", PASSWORD)
    setup = ChannelSetup(name="email", people=People([]), folder="/nowhere")
    right = EmailSettings(host="mail.example.org", sender="s@example.org", user=USER)
    assert list(right.problems(setup)) == []
    (injected,) = right.problems(ChannelSetup(name="email", people=people()))
    assert "\n" not in injected[1]
    made = right.make(setup)
    assert (made._server.port, made._server.password, made.only_notifies) == (587, PASSWORD, True)
    wrong = EmailSettings(
        host="mail.example.org", sender="s", to=("x",), security="none", port=0, ca_file="no.pem", user="u"
    )
    assert [key for key, _ in wrong.problems(setup)] == ["sender", "to", "port", "security", "user", "ca_file"]
