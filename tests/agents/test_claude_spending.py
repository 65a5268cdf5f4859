"""B1: what Claude Code says of its requests, in the files of its conversation, counts once."""

import json
from datetime import UTC, datetime

import anyio
import pytest
from test_permissions import claude

from supervisor import Budget, SqliteStore
from supervisor.agents.claude.spending import Conversation, find_conversation
from supervisor.core.budgets import TOOL
from supervisor.core.usage import Spent
from supervisor.testing import fast_disk, fresh_process

pytestmark = pytest.mark.anyio
SINCE = datetime(2027, 1, 1, tzinfo=UTC)


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


@pytest.fixture(autouse=True)
def _alone(enter):
    enter(fast_disk())
    enter(fresh_process())


def line(reply, given=10, written=1, *, cached=0, made=0, stop="tool_use", at="2027-01-02T00:00:00Z", **more):
    usage = {"input_tokens": given, "output_tokens": written}
    usage |= {"cache_read_input_tokens": cached, "cache_creation_input_tokens": made}
    message = {"id": reply, "model": "claude-1", "stop_reason": stop, "usage": usage, "content": []} | more
    return json.dumps({"type": "assistant", "timestamp": at, "message": message})


class Files:
    """The files of a conversation, as Claude Code writes them."""

    def __init__(self, folder):
        self.projects = folder / "projects"
        self.conversation = Conversation(self.projects, "c1", SINCE)

    def write(self, *lines, name="c1", end="\n"):
        file = self.projects / "-work" / f"{name}.jsonl"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as out:
            out.write("\n".join(lines) + end)

    def read(self):
        """Return the requests, and the tokens of input, cached input and output, that a first look finds."""
        _, used = self.conversation.read({}, is_over=False)
        return [(each.input_tokens, each.cached_input_tokens, each.output_tokens) for each in used]


@pytest.fixture
def files(tmp_path):
    return Files(tmp_path)


async def spent(supervisor) -> Spent:
    return (await supervisor.get_session("s")).usage


async def test_replies_count_once_over_looks_and_restarts(tmp_path, files):
    """Also those that were written while no server ran. A server that is left looks once more."""
    files.write(line("m1"))
    async with claude(SqliteStore(tmp_path / "db"), dies=True, conversation=files.conversation) as it:
        await it.pending()
        await anyio.sleep(60)
        assert (await spent(it.supervisor)).requests == 1
        files.write(line("m2", 20), line("m3", 30, stop=None))
        await anyio.sleep(60)
        assert ((await spent(it.supervisor)).requests, (await spent(it.supervisor)).input_tokens) == (2, 30)
    files.write(line("m3", 30, 5, stop="end_turn"), line("m4", 40, stop=None))
    async with claude(SqliteStore(tmp_path / "db"), conversation=files.conversation) as it:
        await it.pending()
        await anyio.sleep(60)
        assert (await spent(it.supervisor)).output_tokens == 7
        await it.permissions.leave()
        assert ((await spent(it.supervisor)).requests, (await spent(it.supervisor)).input_tokens) == (4, 100)


@pytest.mark.parametrize("budget", [Budget(calls=1), Budget(tokens=50)], ids=["calls", "tokens"])
async def test_a_budget_is_checked_before_each_permission(tmp_path, files, budget):
    """It makes its own requests, which no budget stops; the next permission waits for a person."""
    async with claude(SqliteStore(tmp_path / "db"), conversation=files.conversation, budget=budget) as it:
        it.ask(arguments={"command": "ls 1"})
        (first,) = await it.asked()
        await it.approve(first)
        assert (first.tool, len(await it.answered())) == ("Bash", 1)
        files.write(line("m1", 100))
        await anyio.sleep(60)
        it.ask(arguments={"command": "ls 2"})
        (question,) = await it.asked()
        assert (question.tool, len(it.answers)) == (TOOL, 1)
        await it.approve(question)
        (second,) = await it.asked()
        assert (second.tool, second.arguments) == ("Bash", {"command": "ls 2"})


def test_a_reply_of_several_lines_counts_once_with_its_largest_numbers(files):
    """Results, and replies of others, stand between them."""
    said = json.dumps({"type": "user", "message": {"content": "x"}})
    files.write(line("m1", 10, 1, stop=None), said, line("m1", 10, 7, stop=None), line("m2", 1), line("m1", 10, 7))
    assert files.read() == [(10, 0, 7), (1, 0, 1)]


def test_the_cached_input_is_a_part_of_the_input(files):
    files.write(line("m1", 10, cached=100, made=1000))
    assert files.read() == [(1110, 100, 1)]


@pytest.mark.parametrize("usage", [{}, None, {"input_tokens": "many", "output_tokens": -1}, {"output_tokens": 10**13}])
def test_numbers_that_it_does_not_say_are_unknown(files, usage):
    files.write(line("m1", usage=usage))
    assert files.read() == [(None, None, None)]


def test_a_line_that_is_no_reply_of_the_model_is_no_request(files):
    """Its own words in the place of a reply, a line that is not whole, damage, and replies from before the session."""
    files.write(line("m1", model="<synthetic>"), line("m2", at="2026-12-31T23:00:00Z"), "{", "[]", '{"type": 1}', "")
    files.write(line("m3"), end="")
    assert files.read() == []


def test_its_sub_agents_count_and_other_conversations_do_not(files):
    files.write(line("m1", 1))
    files.write(line("m2", 2), name="c2")
    (files.projects / "-work" / "c1" / "subagents").mkdir(parents=True)
    files.write(line("m3", 3), name="c1/subagents/agent-1")
    assert sorted(files.read()) == [(1, 0, 1), (3, 0, 1)]


def test_a_conversation_that_is_not_named_or_not_there_says_nothing(tmp_path):
    assert find_conversation({"HOME": str(tmp_path)}, SINCE) is None
    assert find_conversation({"CLAUDE_CODE_SESSION_ID": "../x"}, SINCE) is None
    found = find_conversation({"CLAUDE_CODE_SESSION_ID": "c1", "CLAUDE_CONFIG_DIR": str(tmp_path)}, SINCE)
    assert found is not None
    assert found.read({}, is_over=True) == ({}, [])
