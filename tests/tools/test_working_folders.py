"""A9: a call runs, and is ruled, in the folder that its card shows, whichever process runs it."""

import anyio
import pytest
from watching import next_of

from supervisor import Approve, Context, ToolContext, agent, allow, open_supervisor, tool
from supervisor.core.approvals.facts import place_of
from supervisor.core.calls.content import content_of_approval
from supervisor.tools import shell

pytestmark = pytest.mark.anyio


@tool
async def build(context: ToolContext, target: str, cwd: str | None = None) -> str:
    """A tool other than the shell that takes a working folder, too."""
    return context.cwd


@agent
async def printing(ctx: Context, cwds: list[str | None]) -> list[str]:
    """Return the folder in which each call ran."""
    return [(await ctx.call(shell, "pwd", cwd=cwd)).content.strip() for cwd in cwds]


@agent
async def parent(ctx: Context, cwds: list[str | None]) -> list[str]:
    return await ctx.run(printing, cwds)


@agent
async def builder(ctx: Context, targets: list[str]) -> list[str]:
    return [(await ctx.call(build, target, cwd="src")).content for target in targets]


@pytest.fixture(name="folders")
def two_folders(tmp_path, monkeypatch):
    """The folder in which a session begins, and the one of the process that claims it: a test only changes into it."""
    for name in ("a", "b"):
        (tmp_path / name / "src").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a")
    return tmp_path / "a", tmp_path / "b"


async def leave_waiting(store, spec, given):
    """Begin a session, and leave while it waits for a person; return the approval."""
    async with open_supervisor(store) as supervisor:
        return await next_of((await supervisor.start(spec, given, session="s")).watch_approvals())


async def decide_all(supervisor, **decision):
    """Approve each approval until the session's run has ended; return the run's result, and the approvals."""
    seen = []
    run = await supervisor.resume("s")
    async with anyio.create_task_group() as group:

        @group.start_soon
        async def decide():
            async with run.watch_approvals() as watch:
                async for asked in watch:
                    seen.append(asked)
                    await supervisor.decide(asked.id, Approve(by="ana", **decision))

        result = await run.result()
    return result, seen


@pytest.mark.parametrize("spec", [printing, parent], ids=["a root's", "a sub-agent's"])
@pytest.mark.parametrize("adopt", [False, True], ids=["resumed", "adopted"])
async def test_a_call_runs_where_its_card_says_in_whichever_process(folders, monkeypatch, spec, adopt):
    """Begun in one folder, claimed in another: a call's own folder is relative to where the session began."""
    here, there = folders
    store = here / "state.db"
    await leave_waiting(store, spec, [None, "src", "../b", str(there)])
    monkeypatch.chdir(there)
    async with open_supervisor(store, adopt=adopt) as supervisor:
        ran_in, asked = await decide_all(supervisor)
    shown = [place_of(content_of_approval(each)).text for each in asked]
    assert ran_in == [str(here), str(here / "src"), str(there), str(there)]
    assert shown == [str(here), str(here / "src"), f"{here}/../b", str(there)]


async def test_a_folder_that_is_gone_is_an_error_and_nothing_ran(folders, monkeypatch):
    """This holds in whichever folder the process is that runs the session."""
    here, there = folders
    store = there / "state.db"
    await leave_waiting(store, failing, [None, "src"])
    monkeypatch.chdir(there)
    here.rename(there / "elsewhere")
    async with open_supervisor(store) as supervisor:
        results, _ = await decide_all(supervisor)
    assert results == [["error", "launch", "none"]] * 2


@agent
async def failing(ctx: Context, cwds: list[str | None]) -> list[list[str]]:
    results = [await ctx.call(shell, "pwd", cwd=cwds[0]), await ctx.call(shell, "pwd", cwd=cwds[1], background=True)]
    return [[result.kind, result.details["reason"], result.details["effect"]] for result in results]


async def test_a_granted_pattern_covers_the_folder_on_the_card(folders, monkeypatch):
    """A pattern that is granted in another process covers the session's folder, and not that of the process."""
    here, there = folders
    store = here / "state.db"
    await leave_waiting(store, printing, [None, None, "src"])
    monkeypatch.chdir(there)
    async with open_supervisor(store) as supervisor:
        ran_in, asked = await decide_all(supervisor, scope="always")
        exact = [f"in {here}: pwd"] * 2  # for the session, and always; that of all calls that only look comes later
        assert [option.pattern for option in asked[0].options if option.pattern] == [*exact, "pwd *", "pwd *"]
        assert (ran_in, len(asked)) == ([str(here), str(here), str(here / "src")], 2)
        run = await supervisor.start(printing, [None], session="elsewhere")
        assert (await next_of(run.watch_approvals())).cwd == str(there)


@pytest.mark.parametrize(("where", "asked"), [(0, 1), (1, 2)], ids=["the session's", "the process's"])
async def test_a_rule_in_code_is_held_against_the_sessions_folder(folders, monkeypatch, where, asked):
    """A rule on the folder of the process that claims the session does not match in the session's folder."""
    store = folders[0] / "state.db"
    await leave_waiting(store, printing, ["src", None])
    monkeypatch.chdir(folders[1])
    async with open_supervisor(store, rules=[allow("shell", f"in {folders[where]}: pwd")]) as supervisor:
        ran_in, seen = await decide_all(supervisor)
    assert (ran_in, len(seen)) == ([str(folders[0] / "src"), str(folders[0])], asked)


async def test_the_folder_and_its_rules_hold_for_any_tool(folders, monkeypatch):
    """A pattern granted for a tool with its own `cwd` means the folder on the card, in whichever process it asks."""
    here, there = folders
    store = here / "state.db"
    asked = await leave_waiting(store, builder, ["x", "x"])
    assert place_of(content_of_approval(asked)).text == str(here / "src")
    monkeypatch.chdir(there)
    async with open_supervisor(store) as supervisor:
        ran_in, asked = await decide_all(supervisor, scope="always")
        assert (ran_in, len(asked)) == ([str(here)] * 2, 1)
        run = await supervisor.start(builder, ["x"], session="elsewhere")
        assert (await next_of(run.watch_approvals())).cwd == str(there)
