"""A tree goes on in a new workflow: after many events, and when it is rescued from code that has changed."""

import signal
from base64 import b64encode
from contextlib import suppress
from functools import partial
from random import Random

import anyio
import pytest
from cluster_agents import __file__ as AGENTS  # noqa: N812 # a path
from temporal_server import find_program, namespace, working
from temporalio.client import Client

from supervisor import Answer, Context, LimitExceeded, agent, open_supervisor, tool
from supervisor.store.memory import MemoryStore
from supervisor.system.loading import load_agents
from supervisor.temporal import open_temporal
from supervisor.temporal.carry import pack, unpack
from supervisor.temporal.client import starting
from supervisor.temporal.client.rescue import rescue
from supervisor.temporal.payloads import VARIABLE
from supervisor.temporal.wire import QUEUE, Carried, Start
from supervisor.temporal.workflow import moving
from supervisor.temporal.workflow.journal import TreeStore
from supervisor.temporal.workflow.tree import RunningTree
from supervisor.testing import replaced, wrapped

pytestmark = pytest.mark.anyio
ROUNDS = 8


@pytest.fixture
def moves_often(enter):
    """Sessions that this process starts go on in a new workflow after 40 events."""
    enter(replaced(starting, "Start", partial(Start, continue_after=40)))


async def lengths(url: str, session: str) -> list[int]:
    """Return how many events each workflow of a session has had."""
    target, name = url.removeprefix("temporal://").split("/")
    client = await Client.connect(target, namespace=name)
    return [each.history_length async for each in client.list_workflows(f'WorkflowId = "{session}"')]


async def workflows(url: str, session: str) -> int:
    return len(await lengths(url, session))


async def asked(supervisor, count: int) -> dict[str, str]:
    """Return the ids of what is asked, by the agent, when there is so much."""
    while len(found := await supervisor.find_approvals()) < count:
        await anyio.sleep(0.1)
    return {each.agent: each.id for each in found}


async def test_a_tree_moves_and_nothing_of_it_is_lost(moves_often, tmp_path, monkeypatch):
    """Its approvals keep their ids, its timer, child and calls go on, and each effect happens once."""
    (tmp_path / "effects").touch()
    monkeypatch.setenv("EFFECTS", str(tmp_path / "effects"))
    url = await namespace()
    async with working(url, list(load_agents(AGENTS).values())), open_temporal(url) as supervisor:
        run = await supervisor.start("enduring", ROUNDS, session="e")
        before = await asked(supervisor, 2)
        while len((tmp_path / "effects").read_text().splitlines()) < ROUNDS:
            await anyio.sleep(0.1)
        while await workflows(url, "e") < 2:
            await anyio.sleep(0.1)
        assert await asked(supervisor, 2) == before
        for each in before.values():
            assert (await supervisor.decide(each, Answer(by="ana", value="yes"))).kind == "accepted"
        assert await run.result() == [*(f"round {n}" for n in range(ROUNDS)), "yes", "yes", "False"]
    effects = (tmp_path / "effects").read_text().splitlines()
    assert effects == [f"noted round {n}" for n in range(ROUNDS)]


@agent
async def busy(ctx: Context, rounds: int) -> int:
    """Never waits: one call follows the other."""
    total = 0
    for _ in range(rounds):
        total = (await ctx.call(adding, total)).value
    await ctx.ask("Done?")
    return total


async def test_a_tree_that_never_waits_moves_after_twice_as_many_events(moves_often):
    """Nothing new begins then until its calls have ended. So no history becomes long, and no call runs twice. A call
    takes 6 events: when it took 12, so many calls took five workflows."""
    url = await namespace()
    async with working(url, [busy]), open_temporal(url) as supervisor:
        run = await supervisor.start(busy, 25, session="b")
        for each in (await asked(supervisor, 1)).values():
            await supervisor.decide(each, Answer(by="ana", value="yes"))
        assert await run.result() == 25
        found = await lengths(url, "b")
    assert 1 < len(found) <= 3
    assert max(found) < 3 * 40


@tool(policy="allow")
async def echoing(text: str) -> str:
    return text


@agent
async def wordy(ctx: Context, size: int) -> str:
    for number in range(4):
        await ctx.call(echoing, f"{number}" * size)
    return await ctx.ask("Well?")


@pytest.mark.parametrize("is_large", [False, True])
async def test_a_tree_with_few_large_events_moves_too(is_large, enter):
    """A server limits the bytes of a history as well: the same few events move the tree if they are large."""
    enter(replaced(starting, "Start", partial(Start, continue_after_bytes=300_000)))
    url = await namespace()
    async with working(url, [wordy]), open_temporal(url) as supervisor:
        run = await supervisor.start(wordy, 100_000 if is_large else 10, session="w")
        for each in (await asked(supervisor, 1)).values():
            await supervisor.decide(each, Answer(by="ana", value="yes"))
        assert await run.result() == "yes"
        assert (await workflows(url, "w") > 1) is is_large


@pytest.mark.parametrize("has_folder", [False, True])
async def test_a_journal_that_is_too_large_needs_the_folder_to_move(
    moves_often, has_folder, enter, monkeypatch, tmp_path, caplog
):
    """Without it the tree stays where it is, the log says why, and so does a rescue that is refused."""
    enter(replaced(moving, "CARRIED_LARGEST_BYTES", 10))
    if has_folder:
        monkeypatch.setenv(VARIABLE, str(tmp_path))
    url = await namespace()
    async with working(url, [busy]), open_temporal(url) as supervisor:
        run = await supervisor.start(busy, 15, session="b")
        (question,) = (await asked(supervisor, 1)).values()
        if not has_folder:
            with pytest.raises(LimitExceeded, match=VARIABLE):
                await rescue(supervisor, "b", goes_on=False, by="ana")
        await supervisor.decide(question, Answer(by="ana", value="yes"))
        assert await run.result() == 15
        assert (await workflows(url, "b") > 1) is has_folder
    assert any("tree.not_moved" in each.getMessage() for each in caplog.records) is not has_folder


async def test_a_tree_that_cannot_move_ends_before_its_server_ends_it(moves_often, enter):
    """The run says what to do, and its journal is there. A workflow that the server ends leaves nothing."""
    enter(replaced(moving, "CARRIED_LARGEST_BYTES", 10))
    url = await namespace()
    async with working(url, [busy]), open_temporal(url) as supervisor:
        run = await supervisor.start(busy, 1000, session="b")
        outcome = await run.outcome()
        assert outcome.kind == "abandoned"
        assert VARIABLE in (outcome.cause or "")
        assert "ctx.save" in (outcome.cause or "")
        assert (await supervisor.find_sessions())[0].status == "error"
        (length,) = await lengths(url, "b")
    most_events = moving.MOST_SHARES[0] * 40
    assert most_events <= length < most_events + 2 * 40


@tool(policy="allow")
async def noisy(seed: int) -> str:
    return b64encode(Random(seed).randbytes(1500)).decode()  # no determinism is asked of a tool


@agent
async def growing(ctx: Context, rounds: int) -> int:
    for number in range(rounds):
        await ctx.call(noisy, number)
    return rounds


async def test_a_journal_that_grows_too_large_while_its_tree_waits_to_move_stays(moves_often, enter, caplog):
    """It was small enough when it was measured first. The tree stays, what was held goes on, and the log says why."""
    enter(replaced(moving, "CARRIED_LARGEST_BYTES", 11_000))
    url = await namespace()
    async with working(url, [growing]), open_temporal(url) as supervisor:
        assert await (await supervisor.start(growing, 12, session="g")).result() == 12
        assert await workflows(url, "g") == 1
    assert any("tree.not_moved" in each.getMessage() for each in caplog.records)


@agent
async def lingering(ctx: Context) -> str:
    try:
        return await ctx.ask("Well?")
    finally:
        with anyio.CancelScope(shield=True):
            await anyio.sleep(4)


@pytest.mark.slow
async def test_a_decision_that_comes_while_a_tree_moves_counts_in_the_next_workflow(enter):
    """The tree has stopped to wait for its agents, which still end, and does no command any more."""
    waits = list[bool]()

    async def move(usual, *given):
        waits.append(await usual(*given))
        return waits[-1]

    enter(wrapped(RunningTree, "_leave_workflow", move))
    enter(replaced(moving, "UNWIND_SECONDS", 0.1))
    url = await namespace()
    async with working(url, [lingering]), open_temporal(url) as supervisor:
        run = await supervisor.start(lingering, session="l")
        (question,) = (await asked(supervisor, 1)).values()
        assert await rescue(supervisor, "l", goes_on=False, by="ana") == "parked"
        while not waits:
            await anyio.sleep(0.05)
        await supervisor.decide(question, Answer(by="ana", value="yes"))
        while await workflows(url, "l") < 2:
            await anyio.sleep(0.05)
        assert await rescue(supervisor, "l", goes_on=True, by="ana") == "going on"
        with anyio.fail_after(30):
            assert await run.result() == "yes"


@pytest.mark.parametrize("where", [pytest.param("pack", marks=pytest.mark.soak), "unpack"])
def test_a_worker_dies_while_a_tree_moves(moves_often, cluster, where):
    """SIGKILL as the tree leaves its workflow, and as it begins in the next one: another worker goes on."""
    first = cluster.worker("--lost-after", "2", DIES_IN=where)

    async def start() -> None:
        async with open_temporal(cluster.url) as supervisor:
            await supervisor.start("enduring", ROUNDS, session="e")

    anyio.run(start)
    assert first.wait(timeout=60) == -signal.SIGKILL
    cluster.worker()
    for each in cluster.pending(2):
        cluster.run("answer", each["id"], "yes")
    assert cluster.outcome("e")["value"] == [*(f"round {n}" for n in range(ROUNDS)), "yes", "yes", "False"]
    assert cluster.effects() == [f"noted round {n}" for n in range(ROUNDS)]
    assert anyio.run(workflows, cluster.url, "e") > 1
    cluster.replay("e", processes=1)


CODE = """
from supervisor import Context, agent

async def think(text: str) -> str:
    return text

@agent
async def changing(ctx: Context) -> str:
    {before}
    said = await ctx.ask("Well?")
    return said + await ctx.step(think, "{word}")
"""


def test_a_rescued_session_goes_on_with_other_code(cluster, tmp_path):
    """Parked with the old code, and gone on with the new one, by its journal alone."""
    code = tmp_path / "changing_agents.py"
    code.write_text(CODE.format(word=" old", before="await ctx.named('first').step(think, 'a')"))
    cluster.worker(agents=code)
    cluster.run("start", "changing", "--session", "c", code=3)
    (asked,) = cluster.pending()
    assert cluster.read("rescue", "c") == {"session": "c", "rescue": "parked"}
    cluster.kill()
    code.write_text(CODE.format(word=" newer", before="await ctx.named('first').step(think, 'b')"))  # of another size
    cluster.worker(agents=code)
    assert cluster.pending()[0]["id"] == asked["id"]
    assert cluster.read("rescue", "c", "--go-on") == {"session": "c", "rescue": "going on"}
    cluster.run("answer", asked["id"], "fine")
    assert cluster.outcome("c")["value"] == "fine newer"


@agent
async def heeding(ctx: Context) -> list[str]:
    """Asks, and receives a message."""
    return [await ctx.ask("Well?"), await ctx.receive()]


async def test_a_parked_session_keeps_a_decision_and_a_message():
    """Both come while no code runs it. Its agent has both when it goes on, and not before."""
    url = await namespace()
    with anyio.fail_after(60):
        async with working(url, [heeding]), open_temporal(url) as supervisor:
            run = await supervisor.start(heeding, session="h")
            (question,) = (await asked(supervisor, 1)).values()
            assert await rescue(supervisor, "h", goes_on=False, by="ana") == "parked"
            decided = await supervisor.decide(question, Answer(by="ana", value="fine"))
            sent = await supervisor.send("h", "hello", by="bob")
            assert (decided.is_accepted, sent.kind) == (True, "kept")
            assert await run.find_outcome() is None
            assert await rescue(supervisor, "h", goes_on=True, by="ana") == "going on"
            assert await run.result() == ["fine", "hello"]


async def set_current(url: str, build: str) -> None:
    """Let sessions begin with a version of the workers, when one of them is known."""
    target, name = url.removeprefix("temporal://").split("/")
    command = ["worker", "deployment", "set-current-version", "--address", target, "--namespace", name, "--yes"]
    command += ["--deployment-name", QUEUE, "--build-id", build]
    with anyio.fail_after(60):
        while (await anyio.run_process([find_program(), *command], check=False)).returncode != 0:
            await anyio.sleep(0.1)


@agent(name="versioned")
async def old_version(ctx: Context) -> str:
    return await ctx.ask("Well?") + " old"


@agent(name="versioned")
async def new_version(ctx: Context) -> str:
    return await ctx.ask("Well?") + " new"


async def test_a_session_stays_with_the_version_of_the_workers_that_began_it():
    """Another version is current when its question is answered."""
    url = await namespace()
    async with open_temporal(url) as supervisor, working(url, [old_version], build="old"):
        await set_current(url, "old")
        stays = await supervisor.start("versioned", session="stays")
        await asked(supervisor, 1)
        async with working(url, [new_version], build="new"):
            await set_current(url, "new")
            follows = await supervisor.start("versioned", session="follows")
            while len(found := await supervisor.find_approvals()) < 2:
                await anyio.sleep(0.1)
            for each in found:
                await supervisor.decide(each.id, Answer(by="ana", value="fine"))
            assert (await stays.result(), await follows.result()) == ("fine old", "fine new")


@pytest.mark.soak
def test_a_rescued_session_goes_on_at_once_with_the_current_version(cluster, tmp_path):
    """Two workers with two versions of the code. The other session stays."""
    for build in ("old", "new"):
        (tmp_path / build).mkdir()
        code = tmp_path / build / "changing_agents.py"
        code.write_text(CODE.format(word=f" {build}", before="pass"))
        cluster.worker("--build", build, agents=code)
        anyio.run(set_current, cluster.url, build)
        if build == "old":
            cluster.run("start", "changing", "--session", "stays", "--detach")
            cluster.run("start", "changing", "--session", "goes", "--detach")
            cluster.pending(2)
    assert cluster.read("rescue", "goes")["rescue"] == "continued"
    for each in cluster.pending(2):
        cluster.run("answer", each["id"], "fine")
    assert cluster.outcome("stays")["value"] == "fine old"
    assert cluster.outcome("goes")["value"] == "fine new"


@tool(policy="allow")
async def adding(number: int) -> int:
    return number + 1


@agent
async def counting(ctx: Context) -> int:
    """Saves after each call, and asks at the end."""
    for number in range(ctx.saved or 0, 20):
        await ctx.call(adding, number)
        await ctx.save(number + 1)
    await ctx.spawn(enduring_child)
    return int(await ctx.ask("How many?"))


@agent
async def enduring_child(ctx: Context) -> str:
    return await ctx.ask("Child?")


async def test_entries_before_the_last_save_are_not_carried():
    """The next workflow goes on with the rest: the same approvals, and no call again."""
    store = MemoryStore()
    with suppress(InterruptedError):  # leaves the store as a stopped process does
        async with open_supervisor(store) as supervisor:
            await supervisor.start(counting, session="s")
            await asked(supervisor, 2)
            raise InterruptedError
    before = {each.id for each in store.find_approvals()}
    carried = TreeStore(Carried(journal=pack(store), last=store.last_position(), earlier=None, answers={}))
    assert len(carried.rows(0)) < len(store.rows(0)) / 2
    assert carried.last_position() == store.last_position()
    assert [row.position for row in unpack(pack(store, is_whole=True))] == [row.position for row in store.rows(0)]
    async with open_supervisor(carried) as supervisor:
        run = await supervisor.resume("s")
        assert {each.id for each in await supervisor.find_approvals()} == before
        for each in before:
            await supervisor.decide(each, Answer(by="ana", value="7"))
        assert await run.result() == 7
    called = [row for row in carried.rows(store.last_position()) if "ToolCall" in type(row.event).__name__]
    assert called == []
