"""Sessions of other programs are imported in batches, once, and are idle from their first entry on."""

import anyio
import pytest
from scenes import ForkingStore, events, fork, names, opened, replayed

from supervisor import Context, InvalidInput, MemoryStore, SqliteStore, agent
from supervisor.core import events as e
from supervisor.core.errors import SessionConflict, TreeOwned
from supervisor.core.sessions.trees import Origin

pytestmark = pytest.mark.anyio
ORIGIN = Origin("pi v3", "its-own-id", "/there.jsonl", "digest", "/project")


@agent
async def chats(ctx: Context, text: str) -> str:
    return f"{text} {[one.kind for one in ctx.transcript()]}"


@agent
async def deaf(ctx: Context) -> str:
    return "nothing"


def messages(now):
    """Return one message of each kind."""
    said = {"at": now, "said_at": now.replace(year=2020)}
    return [
        e.MessageImported(role="user", text="list", **said),
        e.MessageImported(role="call", text="{}", tool="bash", call="c1", **said),
        e.MessageImported(role="result", text="lost", tool="bash", call="c1", is_error=True, is_lost=True, at=now),
        e.MessageImported(role="assistant", text="done", **said),
    ]


async def bring_in(supervisor, spec=chats, origin=ORIGIN):
    """Import in batches of one, and continue where an earlier import stopped."""
    async with supervisor.import_session("s", origin, agent=spec) as importing:
        if not importing.is_finished:
            for message in messages(supervisor._runner.clock.now())[importing.present :]:
                await importing.add([message])
            await importing.finish(0)
        return importing


async def test_an_import_is_idle_from_the_first_entry_on_and_runs_nothing():
    """It is completed. It has no run to resume, nothing pending, and no audit trail. Waiting for its outcome ends."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        async with supervisor.import_session("s", ORIGIN, agent=chats):
            assert (await supervisor.get_session("s")).status == "completed"
            assert await supervisor.resume_all() == []
        await bring_in(supervisor)
        assert (await (await supervisor.get_run("s")).outcome()).kind == "succeeded"
        assert [view.id for view in await supervisor.find_sessions(is_open=False)] == ["s"]
        assert list(await supervisor.find_audit()) == []
    assert names(store, "s") == ["SessionCreated", "ImportStarted", *["MessageImported"] * 4, "ImportFinished"]


async def test_a_message_begins_its_first_turn_which_reads_the_imported_messages():
    """They come in the order of the file, with the times of the file, marked as imported."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        await bring_in(supervisor)
        receipt = await supervisor.send("s", "go on")
        assert (receipt.kind, receipt.running) == ("begun", True)
        run = await supervisor.get_run("s")
        assert await run.result() == "go on ['received', 'call', 'result', 'sent']"
        assert supervisor._runner.journal.states.get("s", replayed(store, "s")) == replayed(store, "s")


async def test_an_import_that_died_after_any_commit_continues_and_imports_once():
    """Until then a message is refused. The final journal equals that of an uninterrupted import."""
    store = ForkingStore()
    async with opened(store) as supervisor:
        await bring_in(supervisor)
    whole = names(store, "s")
    for copy, _ in store.copies:
        async with opened(copy) as supervisor:
            is_whole = names(copy, "s") == whole
            if not is_whole:
                with pytest.raises(InvalidInput):
                    await supervisor.send("s", "too early")
            assert (await bring_in(supervisor)).is_finished == is_whole
            assert (await bring_in(supervisor)).is_finished
        assert names(copy, "s") == whole
        assert [one.text for one in events(copy, "s", e.MessageImported)] == ["list", "{}", "lost", "done"]


@pytest.mark.parametrize("changed", ["source", "digest", "format", "agent", "begun here"])
async def test_any_other_session_under_its_id_is_a_conflict(changed):
    """The other session is left unchanged. Starting an imported session is a conflict, too."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        if changed == "begun here":
            await (await supervisor.start(chats, "hi", session="s")).outcome()
        else:
            await bring_in(supervisor)
            with pytest.raises(SessionConflict):
                await supervisor.start(chats, "go on", session="s")
        before = store.last_position()
        fields = {name: getattr(ORIGIN, name) for name in ORIGIN.__struct_fields__}
        if changed in fields:
            fields[changed] = "another"
        with pytest.raises(SessionConflict):
            await bring_in(supervisor, None if changed == "agent" else chats, Origin(**fields))
        assert store.last_position() == before


async def test_an_import_refuses_an_agent_that_takes_no_text():
    """It is refused before anything is written. Without an agent the session can only be read."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        with pytest.raises(InvalidInput):
            await bring_in(supervisor, deaf)
        await bring_in(supervisor, None)
        with pytest.raises(InvalidInput):
            await supervisor.send("s", "hello")
    assert fork(store).last_position() == 7


@pytest.mark.parametrize("anyio_backend", ["asyncio", "trio"])
async def test_one_process_imports_a_session_at_a_time(tmp_path):
    """A second process is told which one imports it."""
    with anyio.fail_after(60):
        async with opened(SqliteStore(tmp_path / "s.db")) as one, opened(SqliteStore(tmp_path / "s.db")) as other:
            async with one.import_session("s", ORIGIN, agent=chats):
                with pytest.raises(TreeOwned):
                    await bring_in(other)
            await bring_in(one)
            assert (await bring_in(other)).is_finished
