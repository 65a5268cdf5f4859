"""A9: who starts a session may choose its folder. Its calls run there, are ruled there, and its card says so."""

import anyio
import pytest
from watching import next_of

from supervisor import Approve, Context, InvalidInput, MemoryStore, SessionConflict, agent, allow, open_supervisor, tool
from supervisor.core import events as e
from supervisor.core.approvals.facts import place_of
from supervisor.core.calls.content import content_of_approval
from supervisor.tools import shell

pytestmark = pytest.mark.anyio


@agent
async def printing(ctx: Context) -> list[str]:
    """Return the folder of the session, and the one in which its call ran."""
    return [ctx.cwd, (await ctx.call(shell, "pwd")).content.strip()]


@agent
async def spawning(ctx: Context, cwds: list[str | None]) -> list[str]:
    """Return the folders of sub-agents for which a folder was chosen, or none (None)."""
    return [(await ctx.run(printing, cwd=cwd))[1] for cwd in cwds]


@agent
async def parent(ctx: Context, cwd: str) -> list[str]:
    """Its sub-agent chooses no folder for its own."""
    return await ctx.run(spawning, [None], cwd=cwd)


@pytest.fixture(autouse=True, name="here")
def a_folder_with_a_link(tmp_path, monkeypatch):
    """The program's working directory, with a folder `src`, a link to that, and a file."""
    (tmp_path / "here" / "src" / "deep").mkdir(parents=True)
    (tmp_path / "here" / "link").symlink_to("src")
    (tmp_path / "here" / "file").write_text("")
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


async def left_waiting(store, **chosen):
    async with open_supervisor(store) as supervisor:
        return await next_of((await supervisor.start(printing, session="s", **chosen)).watch_approvals())


@pytest.mark.parametrize("chosen", ["src", "link", "./link/../src", "{here}/src", "{here}/link/"])
async def test_a_session_runs_in_the_folder_that_was_chosen_for_it(here, tmp_path, monkeypatch, chosen):
    """In whichever process; the card has it without links, so no link can be moved below it."""
    asked = await left_waiting(here / "state.db", cwd=chosen.format(here=here))
    assert place_of(content_of_approval(asked)).text == str(here / "src")
    monkeypatch.chdir(tmp_path)
    async with open_supervisor(here / "state.db") as supervisor:
        run = await supervisor.resume("s")
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await run.result() == [str(here / "src")] * 2


@pytest.mark.parametrize("ruled", ["src", ""], ids=["its folder", "the program's"])
async def test_rules_are_held_against_the_chosen_folder(here, ruled):
    """A9: a rule on the program's folder covers nothing in a session that works elsewhere."""
    rule = allow("shell", f"in {here / ruled}: pwd")
    async with open_supervisor(MemoryStore(), rules=[rule]) as supervisor:
        run = await supervisor.start(printing, cwd="src")
        if not ruled:
            await supervisor.decide((await next_of(run.watch_approvals())).id, Approve(by="ana"))
        assert await run.result() == [str(here / "src")] * 2


@pytest.mark.parametrize("chosen", ["gone", "file", "", "src/../gone", "a\0b"])
async def test_a_path_that_is_no_folder_is_refused_before_anything_is_journaled(chosen):
    async with open_supervisor(MemoryStore()) as supervisor:
        with pytest.raises(InvalidInput, match="folder"):
            await supervisor.start(printing, session="s", cwd=chosen)
        assert len(await supervisor.find_sessions()) == 0


async def test_a_session_keeps_its_folder(here):
    """Starting it again is the same run, even if the folder is gone; with another folder it is a conflict."""
    asked = await left_waiting(here / "state.db", cwd="src")
    async with open_supervisor(here / "state.db") as supervisor:
        with pytest.raises(SessionConflict):
            await supervisor.start(printing, session="s", cwd=".")
        (here / "src").rename(here / "gone")
        for same in ({}, {"cwd": "src"}):
            run = await supervisor.start(printing, session="s", **same)
        (here / "gone").rename(here / "src")
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await run.result() == [str(here / "src")] * 2


async def test_a_sub_agent_works_in_its_parents_folder_or_in_the_one_chosen_for_it(here):
    """A relative folder is below the parent's, not below that of the program."""
    async with open_supervisor(MemoryStore(), unattended="allow") as supervisor:
        run = await supervisor.start(spawning, [None, "deep", "..", str(here)], cwd="src")
        assert await run.result() == [str(here / "src"), str(here / "src/deep"), str(here), str(here)]
        assert await (await supervisor.start(parent, "src")).result() == [str(here / "src")]


@agent
async def choosing_badly(ctx: Context) -> str:
    try:
        await ctx.run(printing, cwd="later")
    except InvalidInput:
        await ctx.call(agreed)
        return "refused"
    return "begun"


@tool
async def agreed() -> None: ...


async def test_a_refused_folder_is_refused_in_every_attempt(here):
    """R1: it is journaled as the result of the spawn, so that a replay does not look at the disk again."""
    store = here / "state.db"
    async with open_supervisor(store) as supervisor:
        asked = await next_of((await supervisor.start(choosing_badly, session="s")).watch_approvals())
        assert len(await supervisor.find_sessions()) == 1
    (here / "later").mkdir()
    async with open_supervisor(store) as supervisor:
        run = await supervisor.resume("s")
        await supervisor.decide(asked.id, Approve(by="ana"))
        with anyio.fail_after(60):
            assert await run.result() == "refused"
        entries = [row.event for row in await supervisor.find_entries("s")]
        assert [each.error[0] for each in entries if isinstance(each, e.OperationFinished)] == ["InvalidInput"]


@agent
async def visiting(ctx: Context, cwd: str = "nowhere") -> list[str]:
    return [cwd, ctx.cwd]


@agent
async def sending(ctx: Context) -> list[str]:
    with pytest.raises(InvalidInput, match="cwd"):
        await ctx.run(visiting, cwd="src")
    return await ctx.run(visiting, "an input", cwd="src")


async def test_an_input_that_is_named_cwd_is_not_taken_for_the_folder(here):
    """By keyword it could mean both, so it is refused; by position it is the input."""
    async with open_supervisor(MemoryStore()) as supervisor:
        assert await (await supervisor.start(sending)).result() == ["an input", str(here / "src")]
