"""A9: the paths of a call are settled just before it asks, and again just before its effect."""

import os
from pathlib import Path

import pytest
from scenes import events, opened
from watching import next_of

from supervisor import Approve, Context, agent, allow, deny, tool
from supervisor.core import events as e
from supervisor.system.settling import note_ours

pytestmark = pytest.mark.anyio
written = []


@tool(path="file")
async def note(file: str, text: str) -> None:
    written.append((file, text))


@agent
async def noting(ctx: Context, file: str) -> str:
    return (await ctx.call(note, file, "x")).kind


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The folder of the session, next to one that is not, with a link from one to the other."""
    written.clear()
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    (tmp_path / "here" / "link").symlink_to("../there")
    monkeypatch.chdir(tmp_path / "here")
    return os.path.realpath(tmp_path)


async def test_an_allow_of_a_folder_asks_about_a_link_that_leads_out_of_it(folder):
    """What is below it is not asked about, and the names of its paths are journaled."""
    async with opened(rules=[allow(note, f"{folder}/here/**")]) as supervisor:
        assert await (await supervisor.start(noting, "a/b", session="s")).result() == "ok"
        assert events(supervisor.store, "s", e.ToolCallRequested)[0].paths == ("file",)
        run = await supervisor.start(noting, "link/x")
        asked = await next_of(run.watch_approvals())
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await run.result() == "ok"


async def test_a_link_that_was_changed_while_a_person_decided_is_denied(folder):
    """The person approved a file of the folder; it leads to what is denied when the call would begin."""
    async with opened(rules=[deny(note, f"{folder}/there/**")]) as supervisor:
        run = await supervisor.start(noting, "new/x")
        asked = await next_of(run.watch_approvals())
        Path("new").symlink_to("../there")
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await run.result() == "denied"
        assert written == []


async def test_a_file_of_ours_is_asked_about_below_an_allowed_folder(folder):
    """Also by a link that leads to it."""
    note_ours(f"{folder}/there/supervisor.toml")
    async with opened(rules=[allow(note, f"{folder}/**")]) as supervisor:
        assert await (await supervisor.start(noting, f"{folder}/there/other.toml")).result() == "ok"
        run = await supervisor.start(noting, "link/supervisor.toml")
        assert (await next_of(run.watch_approvals())).tool == "note"
        await run.cancel()
