"""A7: a person allows edits inside the session's folder once, and is asked about the others all the same."""

import pytest
from scenes import opened
from watching import next_of

from supervisor import Approve, Context, agent, foreign_tool, tool
from supervisor.core.errors import InvalidInput

pytestmark = pytest.mark.anyio
GRANT = "edits inside {}"
done: list[str] = []


@tool(edits="file")
async def write(file: str, text: str = "") -> str:
    done.append(file)
    return "written"


@agent
async def writes(ctx: Context, files: list[str]) -> str:
    return " ".join([(await ctx.call(write, each)).kind for each in files])


async def _allowed(arguments) -> str:
    done.append(arguments["file_path"])
    return "written"


@agent
async def edits_as_claude(ctx: Context, calls: list[tuple[str, str]]) -> str:
    """Make calls of Claude Code's tools, each a name and a path."""
    made = [await ctx.call(foreign_tool(name, _allowed), {"file_path": path}) for name, path in calls]
    return " ".join(each.kind for each in made)


@pytest.fixture
def folder(tmp_path):
    done.clear()
    (tmp_path / "app").mkdir()
    return tmp_path / "app"


async def test_a_grant_allows_edits_in_the_folder_and_asks_about_the_others(folder):
    """Until it is revoked. It is one rule, which reads as it was offered."""
    grant = GRANT.format(folder)
    async with opened() as supervisor:
        run = await supervisor.start(writes, ["a", "src/b", "package.json", "c"], session="s", cwd=str(folder))
        asked = await next_of(supervisor.watch_approvals())
        assert grant in [each.pattern for each in asked.options]
        decided = await supervisor.decide(asked.id, Approve(by="ana", scope="always", pattern=grant))
        (rule,) = (await supervisor.find_rules()).items
        assert (rule.pattern, rule.id) == (grant, decided.rule)
        asked = await next_of(supervisor.watch_approvals())
        assert asked.arguments["file"] == "package.json"
        assert asked.why.endswith("package.json says what is installed or built, and how")
        assert grant not in [each.pattern for each in asked.options]
        assert done == ["a", "src/b"]
        await supervisor.decide(asked.id, Approve(by="ana"))
        assert await run.result() == "ok ok ok ok"
        await supervisor.revoke_rule(rule.id, by="ana")
        await supervisor.start(writes, ["a"], session="t", cwd=str(folder))
        assert (await next_of(supervisor.watch_approvals())).session == "t"


async def test_a_decision_without_a_pattern_never_makes_the_grant(folder):
    """Where the exact arguments are not offered, it is refused."""
    async with opened() as supervisor:
        await supervisor.start(edits_as_claude, [("Write", "a/" * 600 + "b")], session="s", cwd=str(folder))
        asked = await next_of(supervisor.watch_approvals())
        with pytest.raises(InvalidInput, match="may be approved once"):
            await supervisor.decide(asked.id, Approve(by="ana", scope="always"))


async def test_a_grant_to_one_editor_of_claude_code_is_one_to_each(folder):
    """For the session; Read is no editor, and a link that leads out is no file of the folder."""
    (folder / "out").symlink_to("/etc")
    inside = f"{folder}/a.py"
    calls = [("Edit", inside), ("Write", inside), ("MultiEdit", inside), ("Write", f"{folder}/out/x")]
    async with opened() as supervisor:
        await supervisor.start(edits_as_claude, calls, session="s", cwd=str(folder))
        asked = await next_of(supervisor.watch_approvals())
        await supervisor.decide(asked.id, Approve(by="ana", scope="session", pattern=GRANT.format(folder)))
        asked = await next_of(supervisor.watch_approvals())
        assert asked.arguments["file_path"].endswith("/out/x")
        assert done == [inside] * 3
