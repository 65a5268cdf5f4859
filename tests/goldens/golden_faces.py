"""What people read of each hostile request on each surface, and what its buttons send: faces/SURFACE.txt.

The requests are made by agents on virtual time. Each surface then shows them as it does to people: a channel by its
face or by what it sends, the page by HTTP, the command line by its command. A face that can be compared has a number
at its end, of every byte that the platform gets, so that a change of what a person does not read is seen, too.
"""

import hashlib
import io
import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from html.parser import HTMLParser
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import anyio
import httpx
import msgspec
from hostile_calls import CASES, QUESTIONS, hostile, lead
from msgspec.structs import replace
from rich.console import Console
from still_world import Backend, exact, still, without_ages, without_machine

from supervisor import (
    Approval,
    JournalEntry,
    MemoryStore,
    People,
    Person,
    SqliteStore,
    TokenHash,
    open_supervisor,
)
from supervisor.channels.discord import Discord
from supervisor.channels.mail import Email, SmtpServer
from supervisor.channels.notices import Hook, Ntfy
from supervisor.channels.slack import Slack
from supervisor.channels.telegram import Telegram
from supervisor.channels.terminal import Terminal
from supervisor.channels.terminal.desk import Desk
from supervisor.channels.terminal.screen import draw_region
from supervisor.channels.web import make_web
from supervisor.channels.web.server import listen
from supervisor.cli import main
from supervisor.core.approvals.people import hash_token
from supervisor.seam.channel import Channel

LINK = "https://inbox.example"
IDENTITIES = {"slack": "U01", "discord": "11", "telegram": "11", "email": "ana@example.org"}
TOKEN = TokenHash(hash_token("token-of-ana"))
PEOPLE = People([Person(name="ana", roles=("operator",), identities=IDENTITIES, tokens=(TOKEN,)), Person(name="ben")])
ALSO_AS_NOTICE = ("an argument named since", "choices like our buttons")
TWINS = "two-of-one-name"
Rows = Sequence[JournalEntry]


# -- the requests ------------------------------------------------------------------------------------------------------


def ask_all(backend: Backend) -> Rows:
    """Let agents ask all of it on a backend of virtual time, and return the journals."""
    name, options = backend()
    with still() as numbers:
        return anyio.run(_ask_all, numbers.restart, backend=name, backend_options=options)


async def _ask_all(restart: Callable[[], None]) -> Rows:
    store, reminded = MemoryStore(), MemoryStore()
    async with open_supervisor(store) as supervisor:
        for case in (*CASES, *QUESTIONS):
            restart()
            run = await supervisor.start(hostile, case, session=session_of(case), requester="ana", cwd="/")
            async with run.watch_approvals() as asked:
                await anext(asked)
        restart()
        run = await supervisor.start(lead, ["a", "b"], session=TWINS, requester="ana\n  for  ben\x1b", cwd="/")
        async with run.watch_approvals() as asked:
            for _ in ("a", "b"):
                await anext(asked)
                await supervisor.send(TWINS, "go on", by="ana")
    async with open_supervisor(
        reminded, people=PEOPLE, remind_after=60.0, escalate_after=60.0, escalate_to=["ben"]
    ) as supervisor:
        restart()
        await supervisor.start(hostile, "nulls", session="escalated", requester="ana", cwd="/")
        await anyio.sleep(300.0)
    return in_order([*store.rows(0), *reminded.rows(0)])


def in_order(rows: Rows) -> Rows:
    """Return journals without facts about the machine, one after another: how they interleave differs."""
    sessions = list(dict.fromkeys(row.session for row in rows))
    rows = sorted(rows, key=lambda row: sessions.index(row.session))
    return [JournalEntry(at, row.session, without_machine(row.event)) for at, row in enumerate(rows, 1)]


def session_of(case: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", case.lower()).strip("-")


def stored(rows: Rows, store: Any) -> Any:
    """Return a store that holds these journals."""
    store.open()
    assert store.begin()
    store.write(rows)
    store.commit()
    store.close()
    return store


# -- the surfaces ------------------------------------------------------------------------------------------------------


def show_all(rows: Rows) -> dict[str, str]:
    """Return the golden of each surface, by its file."""
    with still(is_virtual=False):
        return anyio.run(_show_all, rows)


async def _show_all(rows: Rows) -> dict[str, str]:
    listener = listen("127.0.0.1", 0)
    web = make_web(people=PEOPLE, secret=b"s" * 32, listener=listener, hosts=["127.0.0.1"])
    async with open_supervisor(stored(rows, MemoryStore()), channels=[web], people=PEOPLE) as supervisor:
        asked = list(await supervisor.find_approvals(limit=None))
        found = {"faces/web.txt": await on_pages(asked, f"http://127.0.0.1:{listener.getsockname()[1]}")}
        found["faces/command-line.txt"] = await anyio.to_thread.run_sync(on_command_line, rows)
    asked = [*asked, replace(asked[0], blocked=True)]
    for channel in (
        Slack(token="xoxb-1", conversation="C1", people=PEOPLE, link=LINK),
        Discord(token="t", application="1", public_key="0" * 64, conversation="1", people=PEOPLE, link=LINK),
        Telegram(token="1:t", conversation=-1, people=PEOPLE, link=LINK),
    ):
        found[f"faces/{channel.name}.txt"] = "".join(_part(each, in_chat(channel, each)) for each in asked)
    found["faces/terminal.txt"] = "".join([_part(each, await on_terminal(each)) for each in asked])
    return found | await in_notices(asked)


def _part(approval: Approval, shown: str) -> str:
    head = " ".join([approval.root_session, *(["blocked"] if approval.blocked else [])])
    return f"==== {head}\n{exact(shown)}\n\n"


def in_chat(channel: Channel, approval: Approval) -> str:
    """Return the card of a chat platform, and for some requests what is shown where people cannot decide."""
    kinds = (False, True) if approval.root_session in map(session_of, ALSO_AS_NOTICE) else (False,)
    faces = [channel.face(approval, is_notice=is_notice) or "" for is_notice in kinds]
    return "\n-- as a notice\n".join(map(_read_face, faces))


def _read_face(face: str) -> str:
    number = hashlib.sha256(face.encode()).hexdigest()[:12]
    return "\n".join([*_lines_of(json.loads(face)), f"face {number}"])


TEXTS = ("text", "title", "description", "content", "name", "value", "label", "placeholder", "url")
CODES = ("action_id", "custom_id", "callback_data")


def _lines_of(value: Any, key: str = "") -> Iterator[str]:
    """Give the texts of a message of a platform, and for each button what it sends."""
    if isinstance(value, dict):
        if code := next((value[each] for each in CODES if each in value), None):
            yield f"[{code} {value.get('value', '')}]".replace(" ]", "]")
        for name, each in value.items():
            if not code or name != "value":
                yield from _lines_of(each, name)
    elif isinstance(value, list):
        for each in value:
            yield from _lines_of(each, key)
    elif isinstance(value, str) and key in TEXTS:
        yield from (f"| {line}" for line in value.split("\n") if line.strip())


async def on_terminal(approval: Approval) -> str:
    """Return the card with its keys, and the lines where a person cannot press keys."""
    desk = Desk("ana", 0.4)
    desk.add(approval, 0.0)
    console = Console(width=100, height=1000, file=io.StringIO(), no_color=True)
    drawn = draw_region(desk, [], console, approval.created_at)
    card = "\n".join(re.sub(" +│$", " │", "".join(segment.text for segment in line)) for line in drawn)
    said = io.StringIO()
    with redirect_stderr(said):
        await Terminal(by="ana", store="state.db", interactive=False).post(approval, None)
    return f"{card}\n-- without keys\n{without_ages(said.getvalue())}"


class _Mailbox(SmtpServer, kw_only=True):
    """Keeps what it is to send."""

    sent: list[Any] = msgspec.field(default_factory=list)

    async def send(self, message: Any, sender: str, recipients: list[str]) -> None:
        self.sent.append(message)


async def in_notices(asked: Sequence[Approval]) -> dict[str, str]:
    """Return what each channel sends that only notifies."""
    requests: list[httpx.Request] = []

    def take(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200)

    box = _Mailbox(host="mail.example", port=465)
    wire = {"link": LINK, "detail": "full", "transport": httpx.MockTransport(take)}
    channels = {
        "ntfy": Ntfy(topic="t", server="https://ntfy.example", **wire),
        "hook": Hook(url="https://hook.example", secret=f"whsec_{'A' * 32}", **wire),
        "email": Email(server=box, sender="supervisor@example.org", people=PEOPLE, link=LINK),
    }
    found = {}
    for name, channel in channels.items():
        parts = []
        for approval in asked:
            await channel.post(approval, None)
            parts.append(_part(approval, _letter(box.sent.pop()) if name == "email" else _request(requests.pop())))
        found[f"faces/{name}.txt"] = "".join(parts)
    return found


def _request(request: httpx.Request) -> str:
    return json.dumps(json.loads(request.content), ensure_ascii=False, indent=1).replace("\\n", "\\n\n   ")


def _letter(letter: Any) -> str:
    hidden = ("Date", "Message-ID", "MIME-Version", "Content-Type", "Content-Transfer-Encoding")
    heads = [f"{name}: {value}" for name, value in letter.items() if name not in hidden]
    return without_ages("\n".join([*heads, letter.get_content()]))


async def on_pages(asked: Sequence[Approval], url: str) -> str:
    """Return the main part of each request's page: its texts, and the fields and buttons of its form."""
    parts = []
    headers = {"authorization": "Bearer token-of-ana"}
    async with httpx.AsyncClient(base_url=url, headers=headers) as client:
        for each in asked:
            page = await client.get(f"/approvals/{each.id}")
            assert page.status_code == 200, page.text
            reader = _Reader()
            reader.feed(page.text)
            parts.append(_part(each, without_ages("\n".join(reader.lines()[1:]))))  # without how many wait
    return "".join(parts)


class _Reader(HTMLParser):
    """Reads the main part of a page as text: a line for each element of a block, and what a form would send."""

    INLINE = ("span", "b", "strong", "em", "code", "bdi", "a", "abbr", "time", "small")

    def __init__(self) -> None:
        super().__init__()
        self._is_main = False
        self._text = ""

    def lines(self) -> list[str]:
        return [line.rstrip() for line in self._text.split("\n") if line.strip()]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._is_main = self._is_main or tag == "main"
        if not self._is_main:
            return
        if tag not in self.INLINE:
            self._text += "\n"
        if tag in ("input", "button", "select", "textarea", "option") and given.get("name") != "csrf":
            named = (f"{name}={given[name] or ''}" for name in ("name", "value", "type") if name in given)
            self._text += f"[{tag} {' '.join(named)}] "
        if tag == "a":
            self._text += f"[{given.get('href')}] "

    def handle_endtag(self, tag: str) -> None:
        self._is_main = self._is_main and tag != "main"
        if tag not in self.INLINE:
            self._text += "\n"

    def handle_data(self, data: str) -> None:
        if self._is_main:
            self._text += data if data.strip() else " " * bool(data)


def on_command_line(rows: Rows) -> str:
    """Return what `supervisor approvals` lists, and what it shows of each that is named."""
    said = io.StringIO()
    with TemporaryDirectory() as folder, redirect_stdout(said), redirect_stderr(io.StringIO()):
        file = Path(folder) / "state.db"
        stored(rows, SqliteStore(file))
        ids = [asked for row in rows if (asked := getattr(row.event, "approval", None))]
        assert main(["approvals", "--store", str(file)]) == 0
        said.write("\n")
        assert main(["approvals", *dict.fromkeys(ids), "--store", str(file)]) == 0
    found = re.split(r"\n(?=[a-z2-7]{8,42}  since )", without_ages(said.getvalue()))
    return "\n".join(map(exact, found)) + "\n"
