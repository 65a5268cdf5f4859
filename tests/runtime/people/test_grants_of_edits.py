"""A7: a person allows edits inside the session's folder once, and is asked about the others all the same."""

import pytest
from scenes import opened
from test_releasing import waiting
from watching import next_of

from supervisor import Approve, Context, agent, allow, deny, foreign_tool, tool
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


@agent
async def edits_at_once(ctx: Context, calls: list[tuple[str, str]]) -> list[str]:
    """Make calls of Claude Code's tools, in a sub-agent each."""
    children = [await ctx.spawn(edits_as_claude, [call]) for call in calls]
    return [await child.result() for child in children]


@pytest.mark.parametrize(
    ("how", "left"), [("a card", "ejpy"), ("a card, for one use", None), ("a rule", "ejpy"), ("a path", "bcejy")]
)
async def test_a_grant_decides_the_edits_that_wait_already_and_no_others(folder, how, left):
    """A person who grants the folder is not asked again about the twenty edits that wait there. Where a path leads is
    settled then; a script, a place that a rule denies, and a place elsewhere wait on."""
    (folder / "e").symlink_to("/etc")
    (folder / "in").symlink_to(folder)
    calls = [*(("Edit", f"{folder}/a{each}") for each in range(17)), ("Write", f"{folder}/b")]
    calls += [("MultiEdit", f"{folder}/c"), ("Edit", f"{folder}/in/d"), ("Edit", f"{folder}/e/e"), ("Edit", "/srv/y")]
    calls += [("Edit", f"{folder}/p/package.json"), ("Edit", f"{folder}/kept/j")]
    grant = GRANT.format(folder)
    async with opened() as supervisor:
        await supervisor.start(edits_at_once, calls, session="s", cwd=str(folder))
        first, *_ = await waiting(supervisor, 24)
        await supervisor.add_rule(deny("Edit", f"{folder}/kept/**"), by="ana")
        if how.startswith("a card"):
            uses = None if left else 1
            decision = Approve(by="ana", scope="session", pattern=grant, uses=uses)
            assert len((await supervisor.decide(first.id, decision)).released) == (uses or 19)
        else:
            rule = allow("Edit", grant if how == "a rule" else f"{folder}/**")
            await supervisor.add_rule(rule, by="ana", pending=True)
        names = [each.arguments["file_path"] for each in await waiting(supervisor, len(left or range(22)))]
    assert left is None or sorted(name.removesuffix("/package.json")[-1] for name in names) == sorted(left)
