"""An argument that has the default value of its parameter is shown last and marked on every surface. None is hidden."""

import json
import sys
from datetime import UTC, datetime
from functools import partial
from typing import Any

import anyio
import preloaded
import pytest

from supervisor import Approval, Approve, Context, SqliteStore, agent, open_supervisor, tool
from supervisor.channels.discord.components import card_message as discord_card
from supervisor.channels.mail.letters import asked_letter, mail_address
from supervisor.channels.slack.blocks import card_blocks
from supervisor.channels.telegram.messages import card_message as telegram_card
from supervisor.channels.terminal.screen import draw_card, open_console
from supervisor.channels.web import rendering
from supervisor.channels.web.pages.inbox import card_view
from supervisor.channels.web.pages.visits import Viewer
from supervisor.channels.wording.cards import card_lines, make_card

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


@tool(secret=["key"])
async def release(
    count: int = 1, target: str = "staging", note: str | None = None, key: str = "k", *, loud: bool = False
) -> str:
    return f"{target} {count} {loud}"


@agent
async def releaser(ctx: Context, given: dict[str, Any]) -> str:
    return (await ctx.call(release, **given)).content


async def asked(store: SqliteStore, given: dict[str, Any], edited: dict[str, Any] | None = None) -> Approval:
    """Let the agent ask, and decide it; return the approval as another process reads it then, or before that."""
    async with open_supervisor(store) as supervisor:
        run = await supervisor.start(releaser, given)
        async with supervisor.watch_approvals() as watch:
            found = await anext(aiter(watch))
        await supervisor.decide(found.id, Approve(by="ana", arguments=edited))
        await run.result()
        return found if edited is None else await supervisor.get_approval(found.id)


async def test_default_values_are_journaled_with_the_request(tmp_path):
    """Whether the agent gave it or left it out; a mask says nothing of a secret's value."""
    found = await asked(SqliteStore(tmp_path / "a.db"), {"target": "staging", "count": 2})
    assert set(found.defaults) == {"target", "note", "loud"}


async def test_an_edited_argument_is_no_default_any_more(tmp_path):
    """True is not 1, and what an edit leaves as it was stays marked."""
    edited = {"target": "production", "count": 1, "note": None, "key": "k", "loud": True}
    found = await asked(SqliteStore(tmp_path / "a.db"), {}, edited)
    assert (found.arguments["target"], set(found.defaults)) == ("production", {"count", "note"})


def an_approval(arguments: dict[str, Any], defaults: tuple[str, ...]) -> Approval:
    names = dict.fromkeys(["session", "root_session", "agent", "operation", "digest"], "x" * 20)
    asks = {"tool": "release", "requester": "ana", "cwd": "/srv", "options": (), "status": "pending"}
    return Approval(
        id="abcdefghijklmnop", path=("a",), created_at=NOW, arguments=arguments, defaults=defaults, **names, **asks
    )


def on_terminal(approval):
    console = open_console()
    with console.capture() as shown:
        console.print(draw_card(make_card(approval, NOW)))
    return shown.get()


def on_page(approval):
    facts = {"view": card_view(approval, NOW), "viewer": Viewer("ana"), "here": "", "pending": 1, "stream": "/x"}
    return rendering.render("approval.html", NOW, told="", problem="", typed=None, **facts).partition("<dl")[2]


SURFACES = {
    "plain": lambda approval: card_lines(make_card(approval, NOW), {}),
    "terminal": on_terminal,
    "slack": lambda approval: json.dumps(card_blocks(approval, NOW, None)),
    "discord": lambda approval: json.dumps(discord_card(approval, NOW, None)),
    "telegram": lambda approval: telegram_card(approval)["text"],
    "email": lambda approval: asked_letter(approval, None, "s", mail_address("a@example.org"), NOW).get_content(),
    "web": on_page,
}


@pytest.mark.parametrize("surface", SURFACES)
def test_each_surface_shows_the_others_first_and_marks_those(surface):
    arguments = {"count": 417, "loud": "yes-aloud", "target": "to-production"}
    shown = SURFACES[surface](an_approval(arguments, ("count", "loud")))
    places = [shown.index(text) for text in ("to-production", "417", "yes-aloud")]
    assert places == sorted(places)
    shown = shown.replace("&#34;", '"').replace('\\"', '"')
    assert '"target" (default)' not in shown
    assert shown.index('"count" (default)') < shown.index('"loud" (default)')


async def test_a_listing_shows_them_last(tmp_path, capsys):
    """`supervisor approvals` in another process knows them by the journal."""
    async with open_supervisor(store := SqliteStore(tmp_path / "a.db")) as supervisor:
        await supervisor.start(releaser, {"target": "to-production"})
        async with supervisor.watch_approvals() as watch:
            await anext(aiter(watch))
        command = [sys.executable, "-m", "supervisor", "approvals", "--store", store.path]
        listed = (await anyio.to_thread.run_sync(partial(preloaded.run, command, capture_output=True))).stdout.decode()
    places = [listed.index(text) for text in ("to-production", '"count" (default)', '"loud" (default)')]
    assert places == sorted(places)


def test_an_agent_cannot_mark_an_argument():
    """A tool of a framework may take any name."""
    facts = make_card(an_approval({"force (default)": True, "x": 1}, ("x",)), NOW).facts
    labels = [fact.label for fact in facts]
    assert labels.index('"force (default)"') < labels.index('"x" (default)')
    assert [fact.name for fact in facts if fact.is_default] == ["x"]
