"""R1, A5: an entry that this program cannot read stops its own session only, and is left untouched."""

import anyio
import pytest
from scenes import Wall
from watching import next_of

from supervisor import Approve, Context, SqliteStore, SupervisorError, agent, open_supervisor, tool

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    """In real time: another connection writes to the file."""
    return request.param


@tool
async def deploy(target: str) -> str:
    return target


@agent
async def asks(ctx: Context, target: str) -> str:
    return (await ctx.call(deploy, target)).content


def write_as_a_newer_program(path, session):
    """Commit an entry whose tag this program does not know, as another process would."""
    import sqlite3

    with sqlite3.connect(path) as connection:
        number = connection.execute("SELECT session FROM event WHERE id = ?", (session,)).fetchone()[0]
        connection.execute("INSERT INTO event (session, body) VALUES (?, ?)", (number, b'{"event":"RunTeleported"}'))
    connection.close()


async def test_an_entry_of_a_newer_program_stops_its_session_and_no_other(tmp_path):
    """R1: the session is refused with the reason; its neighbour goes on, and nothing is overwritten."""
    path = tmp_path / "state.db"
    async with open_supervisor(SqliteStore(path)) as supervisor:
        one = await supervisor.start(asks, "a", session="one")
        two = await supervisor.start(asks, "b", session="two")
        asked = [await next_of(run.watch_approvals()) for run in (one, two)]
        write_as_a_newer_program(path, "one")
        with anyio.fail_after(60):
            with pytest.raises(SupervisorError):
                await one.outcome()
            await supervisor.decide(asked[1].id, Approve(by="ana"))
            assert await two.result() == "b"


@agent(name="mcp-proxy")
async def proxied(ctx: Context) -> None:
    """It has the name of an agent that only a command can run, so a daemon reads its journal before it claims it."""
    await ctx.receive()


@agent
async def parent(ctx: Context) -> list[str]:
    children = [await ctx.spawn(asks, "a") for _ in range(2)]
    return [await child.result() for child in children]


async def test_a_daemon_claims_the_trees_next_to_one_that_cannot_be_read(tmp_path):
    """R2: all trees of a search are claimed in one append."""
    path = tmp_path / "state.db"
    async with open_supervisor(SqliteStore(path)) as supervisor:
        await supervisor.start(proxied, session="one")
        await supervisor.start(asks, "b", session="two")
    write_as_a_newer_program(path, "one")
    async with open_supervisor(SqliteStore(path), adopt=True) as supervisor:
        with anyio.fail_after(20):
            while not supervisor.store.owns("two"):
                await anyio.sleep(0.01)


async def test_a_decision_for_the_session_counts_next_to_one_that_cannot_be_read(tmp_path):
    """A13: its rule decides what waits in the tree, as far as that can be read."""
    path = tmp_path / "state.db"
    async with open_supervisor(SqliteStore(path)) as supervisor:
        await supervisor.start(parent, session="s")
        with anyio.fail_after(60):
            while len(asked := await supervisor.find_approvals()) < 2:
                await anyio.sleep(0.01)
            write_as_a_newer_program(path, asked[0].session)
            while asked[0].session in supervisor._runner.journal.pinned:
                await anyio.sleep(0.01)
        allowed = await supervisor.decide(asked[1].id, Approve(by="ana", scope="session"))
        assert (allowed.kind, allowed.released) == ("accepted", ())


async def test_several_acts_of_a_person_count_next_to_a_session_that_cannot_be_read(tmp_path):
    """A16, A10: a batch says which decision was not made; the person is on the other approvals."""
    path = tmp_path / "state.db"
    async with open_supervisor(SqliteStore(path)) as supervisor:
        runs = [await supervisor.start(asks, "a", session=session) for session in ("one", "two")]
        asked = [(await next_of(run.watch_approvals())).id for run in runs]
    write_as_a_newer_program(path, "one")
    async with open_supervisor(SqliteStore(path)) as supervisor:
        assert await supervisor.acknowledge(asked, by="ana") == (asked[1],)
        decided = await supervisor.decide_all([(each, Approve(by="ana")) for each in asked])
    assert [each.kind for each in decided] == ["refused", "accepted"]


class Board(Wall):
    keeps_cards = True

    def __init__(self, *, is_away: bool = False) -> None:
        self.is_away = is_away
        self.served = []

    async def post(self, approval, card):
        self.served.append(approval.session)
        return "card"

    async def retire(self, approval, card):
        if self.is_away:
            raise ConnectionError("no network")
        self.served.append(approval.session)


@pytest.mark.parametrize("is_decided", [False, True])
async def test_cards_of_a_session_that_cannot_be_read_stay_and_all_others_are_served(tmp_path, is_decided):
    """R3: which cards there are is in its journal. A daemon posts, and retires, those of every other session."""
    path, before, board = tmp_path / "state.db", Board(is_away=True), Board()
    async with open_supervisor(SqliteStore(path), channels=[before]) as supervisor:
        runs = [await supervisor.start(asks, "a", session=session) for session in ("one", "two")]
        asked = [await next_of(run.watch_approvals()) for run in runs]
        while not all(each.shown for each in await supervisor.find_approvals()):
            await anyio.sleep(0.01)
        if is_decided:
            await supervisor.decide(asked[0].id, Approve(by="ana"))
            await runs[0].outcome()
    write_as_a_newer_program(path, "one")
    async with open_supervisor(SqliteStore(path), channels=[board], adopt=True) as supervisor:
        with anyio.fail_after(60):
            await supervisor.decide(asked[1].id, Approve(by="ana"))
            assert await (await supervisor.get_run("two")).result() == "a"
            while "two" not in board.served:
                await anyio.sleep(0.01)
    assert "one" not in board.served
