"""Turns on Temporal: a message to a session that has ended begins a new workflow, which goes on with its journal."""

import signal
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import anyio
import pytest
from clusters import histories, replay
from temporal_server import namespace, working
from temporalio.client import Client
from turning_agents import (
    __file__ as TURNING,  # noqa: N812 # a path
    below,
    broken,
    chatty,
    quiet,
)

from supervisor import InvalidInput, LimitExceeded, SessionConflict, deny
from supervisor.core.sessions.trees import Origin
from supervisor.events import ForkTaken, MessageImported
from supervisor.temporal import open_temporal
from supervisor.temporal.client import forks, starting, turns
from supervisor.temporal.payloads import VARIABLE
from supervisor.temporal.wire import Command, Start
from supervisor.temporal.workflow import moving
from supervisor.testing import replaced

pytestmark = pytest.mark.anyio
CODEX = Path(__file__).parents[1] / "transcripts/corpus/codex/output-long-after-its-call.jsonl"
NOW = datetime(2026, 11, 23, tzinfo=UTC)
AGENTS = [chatty, quiet, broken, below]


async def runs(url: str, session: str) -> int:
    """Return how many workflows a session has had."""
    target, name = url.removeprefix("temporal://").split("/")
    client = await Client.connect(target, namespace=name)
    return len([each async for each in client.list_workflows(f'WorkflowId = "{session}"')])


async def outcomes(supervisor, session: str, count: int) -> list:
    """Return the results of so many runs of a session."""
    with anyio.fail_after(120):
        while (await supervisor.get_run(session)).number < count:
            await anyio.sleep(0.05)
        return [await (await supervisor.get_run(session, number=n + 1)).result() for n in range(count)]


async def test_two_clients_send_at_once_and_each_message_has_one_turn():
    """They race to begin the next workflow: nothing is lost, and nothing is done twice."""
    url = await namespace()
    async with working(url, AGENTS), open_temporal(url) as one, open_temporal(url) as other:
        await (await one.start(chatty, "first", session="s")).outcome()
        async with anyio.create_task_group() as tasks:
            for number in range(2):
                tasks.start_soon(one.send, "s", f"one {number}")
                tasks.start_soon(other.send, "s", f"other {number}")
        said = [each.partition(" after ") for each in await outcomes(other, "s", 5)]
    assert sorted(text for text, _, _ in said) == ["first", "one 0", "one 1", "other 0", "other 1"]
    assert [before for _, _, before in said] == ["0", "2", "4", "6", "8"]


async def test_a_client_that_knows_an_old_end_goes_on_after_the_latest_one():
    """Each end is followed once: a turn that ended between its two requests is not forgotten."""
    url = await namespace()
    async with working(url, AGENTS), open_temporal(url) as supervisor:
        await (await supervisor.start(chatty, "first", session="s")).outcome()
        trees = supervisor.trees
        old = await trees.namespace.describe("s")
        left = await turns.find_left(trees.client, trees.named, old)
        await supervisor.send("s", "second")
        await outcomes(supervisor, "s", 2)
        while await trees.is_open("s"):
            await anyio.sleep(0.05)
        late = Command(id="late", kind="send", session="s", by="ana", text="third")
        await turns.follow(trees.client, trees.named, old, left, late)
        assert await outcomes(supervisor, "s", 3) == ["first after 0", "second after 2", "third after 4"]


async def test_a_turn_goes_on_in_another_workflow_and_another_turn_follows(enter):
    """A tree with many events moves within a turn. The next turn follows where it ended."""
    enter(replaced(starting, "Start", partial(Start, continue_after=20)))
    url = await namespace()
    async with working(url, AGENTS), open_temporal(url) as supervisor:
        await (await supervisor.start(chatty, "short", session="s")).outcome()
        await supervisor.send("s", "long")
        await outcomes(supervisor, "s", 2)
        await supervisor.send("s", "short")
        said = await outcomes(supervisor, "s", 3)
        assert [each.partition(" ")[0] for each in said] == ["short", "long", "short"]
        assert await runs(url, "s") > 3
    async with working(url, AGENTS), open_temporal(url) as supervisor:
        assert await outcomes(supervisor, "s", 3) == said  # by a client that has read nothing yet


async def test_a_turn_that_cannot_begin_is_refused_and_begins_nothing(enter, monkeypatch, tmp_path):
    """An agent that takes no text, and a journal that is too large, unless there is a folder for large payloads."""
    enter(replaced(moving, "CARRIED_LARGEST_BYTES", 10))
    url = await namespace()
    async with working(url, AGENTS), open_temporal(url) as supervisor:
        await (await supervisor.start(chatty, "one", session="s")).outcome()
        with pytest.raises(LimitExceeded, match=VARIABLE):
            await supervisor.send("s", "two")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    async with working(url, AGENTS), open_temporal(url) as supervisor:
        await (await supervisor.start(quiet, 1, session="q")).outcome()
        with pytest.raises(InvalidInput, match="takes no text"):
            await supervisor.send("q", "two")
        assert (await runs(url, "s"), await runs(url, "q")) == (1, 1)
        await (await supervisor.start(chatty, "one", session="t")).outcome()
        await supervisor.send("t", "two")
        assert len(await outcomes(supervisor, "t", 2)) == 2


async def test_a_rule_of_a_session_holds_in_its_next_turn():
    """It is added after the end, too."""
    url = await namespace()
    async with working(url, AGENTS), open_temporal(url) as supervisor:
        await (await supervisor.start(chatty, "short", session="s")).outcome()
        rule = await supervisor.add_rule(deny("noting", session="s"), by="ana")
        assert [each.id for each in await supervisor.find_rules()] == [rule.id]
        await supervisor.send("s", "long")
        assert (await outcomes(supervisor, "s", 2))[1].startswith("denied")


async def test_a_retry_keeps_what_was_done_and_counts_while_no_worker_lives(tmp_path, monkeypatch):
    """R10: of the sub-agent, too. A second retry is refused, since the first one has succeeded."""
    monkeypatch.setenv("EFFECTS", str(tmp_path / "effects"))
    url = await namespace()
    async with working(url, AGENTS), open_temporal(url) as supervisor:
        assert (await (await supervisor.start(broken, session="b")).outcome()).kind == "failed"
    async with open_temporal(url) as supervisor:
        (tmp_path / "effects.mended").touch()
        again = await supervisor.retry("b", by="ana")
        async with working(url, AGENTS):
            assert (again.number, await again.result()) == (2, "below mended")
            with pytest.raises(InvalidInput, match="succeeded"):
                await supervisor.retry("b", by="ana")
    assert (tmp_path / "effects").read_text().splitlines() == ["below", "mended"]


async def test_a_fork_whose_client_died_is_finished_by_the_same_fork():
    """The new session stands, and the source learns of it, once."""
    url = await namespace()
    async with working(url, AGENTS), open_temporal(url) as supervisor:
        await (await supervisor.start(chatty, "short", session="s")).outcome()
        with replaced(forks, "send_command", _die), pytest.raises(ConnectionAbortedError):
            await supervisor.fork("s", before=4, new="copy", by="ana")
        for _ in range(2):
            fork = await supervisor.fork("s", before=4, new="copy", by="ana")
        assert await (await supervisor.get_run("copy")).result() == "short after 0"
        taken = [row.event for row in await supervisor.find_entries("s") if isinstance(row.event, ForkTaken)]
        assert [(each.fork, each.before) for each in taken] == [("copy", fork.before)]


async def test_a_session_is_imported_once_and_a_message_goes_on_with_it():
    """While no worker lives. An import that is not finished leaves nothing; another one of this id is a conflict."""
    url, origin = await namespace(), Origin("pi", "p", "p.jsonl", "d", "/")
    said = [MessageImported(at=NOW, role=role, text=role) for role in ("user", "assistant")]
    async with working(url, AGENTS):
        pass  # it has made the search attributes
    async with open_temporal(url) as supervisor:
        for is_finished in (False, True):
            async with supervisor.import_session("i", origin, agent=chatty) as importing:
                assert importing.present == 0
                await importing.add(said)
                if is_finished:
                    await importing.finish(1)
        await supervisor.send("i", "hello")
        async with working(url, AGENTS):
            assert await outcomes(supervisor, "i", 2) == [None, "hello after 2"]
            async with supervisor.import_session("i", origin, agent=chatty) as importing:
                assert (importing.is_finished, importing.count) == (True, 2)
            with pytest.raises(SessionConflict):
                async with supervisor.import_session("i", origin, agent=None):
                    pass


async def _die(*_, **__) -> None:
    raise ConnectionAbortedError


def test_a_message_counts_while_no_worker_lives_and_its_client_dies(cluster):
    """By SIGKILL, once the server has it. So does one after it, and each begins one turn."""
    cluster.worker(agents=TURNING)
    cluster.run("start", "chatty", '"first"', "--session", "s")
    cluster.kill()
    client = cluster.begin("send", "s", "second")
    cluster.until(lambda: anyio.run(runs, cluster.url, "s") == 2)
    client.send_signal(signal.SIGKILL)
    client.communicate()
    assert cluster.read("send", "s", "third", code=0)["running"] is False
    cluster.worker(agents=TURNING)
    cluster.outcome("s", "third after 4")
    assert cluster.effects() == ["first", "second", "third"]


@pytest.mark.parametrize(
    "where",
    [
        pytest.param("workflow.moving.pack", marks=pytest.mark.soak),
        "worker.namespace.to_wire",
        pytest.param("workflow.journal.unpack", marks=pytest.mark.soak),
    ],
)
def test_a_worker_dies_between_two_turns(cluster, where):
    """SIGKILL as a tree ends, when its end is claimed, and as the next workflow begins: another worker goes on."""
    first = cluster.worker("--lost-after", "2", agents=TURNING, DIES_IN=where)
    cluster.run("start", "chatty", '"first"', "--session", "s", "--detach")
    if where != "workflow.moving.pack":
        assert cluster.outcome("s")["value"] == "first after 0"
        cluster.begin("send", "s", "second").communicate()
    assert first.wait(timeout=60) == -signal.SIGKILL
    cluster.worker(agents=TURNING)
    if where == "workflow.moving.pack":
        assert cluster.outcome("s")["value"] == "first after 0"
        cluster.run("send", "s", "second")
    cluster.outcome("s", "second after 2")
    assert cluster.effects() == ["first", "second"]
    replay(anyio.run(histories, cluster.url, "s"), TURNING, processes=1, times=1, **cluster.environment)


CODE = """
from supervisor import Context, agent

async def think(text: str) -> str:
    return text

@agent
async def changing(ctx: Context, text: str) -> str:
    return await ctx.named("{name}").step(think, text + "{word}")
"""


def test_other_code_runs_the_next_turn_and_reads_the_ones_before(cluster, tmp_path):
    """Its workers cannot run the history of the first turn again, and need not. An imported session has none."""
    code = tmp_path / "changing_turns.py"
    code.write_text(CODE.format(name="a", word=" old"))
    cluster.worker(agents=code)
    cluster.run("start", "changing", '"one"', "--session", "c")
    cluster.kill()
    assert "one old" in cluster.run("show", "c")
    code.write_text(CODE.format(name="b", word=" newer"))  # of another size: else Python may take the compiled old one
    cluster.worker(agents=code)
    cluster.run("send", "c", "two")
    cluster.outcome("c", "two newer")
    assert "one old" in cluster.run("show", "c")
    cluster.run("import", str(CODEX), "--session", "i", "--agent", f"{code}:changing", "--not-running")
    cluster.run("send", "i", "three")
    cluster.outcome("i", "three newer")
