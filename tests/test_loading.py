"""Agents are found where their sessions say: by module, file, factory's name or command; if not, one clear error."""

import gc
import weakref

import named_agents
import pytest
from named_agents import hidden, made, make, reviewer
from watching import next_of

from supervisor import (
    Answer,
    Context,
    InvalidInput,
    MemoryStore,
    SessionConflict,
    SqliteStore,
    ToolCall,
    UnknownAgent,
    agent,
    load_agent,
    open_supervisor,
)
from supervisor.core import events as e
from supervisor.system import loading
from supervisor.system.loading import configure, load_agents, locate
from supervisor.testing import fresh_process

pytestmark = pytest.mark.anyio


@agent
async def spawning(ctx: Context, which: int) -> str:
    return await ctx.run(reviewer if which else hidden[0], "x")


@pytest.fixture(autouse=True)
def _fresh(enter, monkeypatch):
    """Each test is a process that has loaded nothing."""
    monkeypatch.setitem(loading.SCHEMES, "fake", "named_agents:fake_agent")
    enter(fresh_process())
    made.clear()


@pytest.mark.parametrize("body", ["import sys\nsys.exit(9)\n", "raise LookupError('9')\n", "def (9\n"])
def test_a_file_that_fails_or_ends_the_program_when_it_is_imported_is_refused(tmp_path, body):
    """R1: a process that resumes it goes on with its other sessions."""
    (tmp_path / "exits.py").write_text(body)
    with pytest.raises(UnknownAgent, match=r"exits\.py"):
        load_agent(f"{tmp_path / 'exits.py'}:agent")


# -- agents of factories -----------------------------------------------------------------------------------------------


def test_an_agent_of_a_factory_has_the_name_that_a_module_gives_it():
    """Whatever its function is called."""
    assert locate(reviewer) == ("named_agents:reviewer", named_agents.__file__)
    assert load_agent("named_agents:reviewer") is reviewer


def test_a_file_offers_the_agents_that_its_factories_made(tmp_path):
    """And not those that it imported from where they are declared."""
    file = tmp_path / "mine.py"
    file.write_text("from named_agents import make, reviewer\nbot = make('my bot')\n")
    assert [*load_agents(str(file))] == ["my bot"]
    assert loading.locate_everywhere(load_agent(f"{file}:bot")) == f"{file}:bot"


@pytest.mark.parametrize("kind", ["started", "spawned"])
async def test_an_agent_that_no_module_has_is_refused_where_a_later_process_would_look_for_it(kind, tmp_path):
    """Nothing is journaled of it. A store in memory has no later process."""
    started = (hidden[0], "x") if kind == "started" else (spawning, 0)
    async with open_supervisor(MemoryStore()) as supervisor:
        assert await (await supervisor.start(*started)).result() == "hidden: x"
    async with open_supervisor(SqliteStore(tmp_path / "state.db")) as supervisor:
        if kind == "started":
            with pytest.raises(InvalidInput, match="at the top of a module"):
                await supervisor.start(*started)
            assert len(await supervisor.find_sessions()) == 0
        else:
            outcome = await (await supervisor.start(*started)).outcome()
            assert "at the top of a module" in outcome.cause
            assert len(await supervisor.find_sessions()) == 1
        assert await (await supervisor.start(spawning, 1)).result() == "the reviewer: x"


def test_two_agents_of_one_factory_are_two_agents():
    """Also where no module has them: a session that has left memory gets its own again, by its name."""
    first, second = make("first"), make("second")
    (reference,) = {locate(first)[0], locate(second)[0]}
    found = [loading.load_recorded(reference, None, name) for name in ("first", "second")]
    assert found == [first, second]


async def test_an_agent_is_not_taken_for_another_one_of_its_functions_name(tmp_path):
    """A factory may give its function any name; what a module has under that name is another agent."""
    impostor = make("impostor")
    impostor.__qualname__, impostor.__module__ = "reviewer", "named_agents"
    async with open_supervisor(tmp_path / "state.db") as supervisor:
        with pytest.raises(InvalidInput, match="at the top of a module"):
            await supervisor.start(impostor, "x")


def test_a_thousand_agents_made_and_dropped_leave_none_in_memory():
    """What a program makes while it runs is kept only while it is used."""
    alive: weakref.WeakSet[object] = weakref.WeakSet()
    for _ in range(1000):
        spec = make("one of many")
        alive.add(spec)
        locate(spec)
    del spec
    gc.collect()
    assert len(alive) <= 1  # the latest under its reference


# -- several agents of one function ------------------------------------------------------------------------------------


async def test_one_function_may_be_several_configured_agents_and_each_session_keeps_its_own():
    """With budgets of its own; a later process finds it by the reference and the name."""
    store = MemoryStore()
    first, second = (configure(reviewer, name, {"max_children": n}) for n, name in enumerate(("a", "b")))
    with pytest.raises(InvalidInput):
        configure(reviewer, "a", {})
    async with open_supervisor(store, agents=[first, second]) as supervisor:
        for name in ("a", "b"):
            await (await supervisor.start(name, "x", session=name)).result()
        with pytest.raises(SessionConflict, match="belongs to agent a"):
            await supervisor.start("b", "x", session="a")
    created = [row.event for row in store.rows(0) if isinstance(row.event, e.SessionCreated)]
    assert {(each.agent, each.path) for each in created} == {
        ("named_agents:reviewer", ("a",)),
        ("named_agents:reviewer", ("b",)),
    }
    found = [loading.load_recorded(each.agent, each.file, each.path[-1]) for each in created]
    assert [each.max_children for each in found] == [0, 1]
    assert load_agent("named_agents:reviewer") is reviewer


def test_a_session_of_a_renamed_agent_gets_the_only_configured_one():
    """Or one that began without the configuration. With two, the declaration counts."""
    first = configure(reviewer, "a", {})
    assert loading.load_recorded("named_agents:reviewer", None, "old name") is first
    configure(reviewer, "b", {})
    assert loading.load_recorded("named_agents:reviewer", None, "old name") is reviewer


# -- references that hold a command ------------------------------------------------------------------------------------


async def test_a_command_is_an_agent_and_a_later_process_makes_it_again(tmp_path, enter):
    """The session records the reference, with its words as a shell would quote them."""
    path = tmp_path / "state.db"
    async with open_supervisor(path) as supervisor:
        run = await supervisor.start(load_agent("fake:bin/coder  --mode 'a b'"), "the test", session="s")
        question = (await next_of(run.watch_approvals())).question
    assert question == "coder runs bin/coder --mode a b for the test. Go on?"
    enter(fresh_process())
    async with open_supervisor(path) as supervisor:
        run = await supervisor.resume("s")
        asked = await next_of(run.watch_approvals())
        await supervisor.decide(asked.id, Answer(value="yes", by="ana"))
        assert await run.result() == "yes"
    assert made == [("coder", ("bin/coder", "--mode", "a b"), {})] * 2
    store = SqliteStore(path)
    store.open()
    assert store.journal("s")[0].event.agent == "fake:bin/coder --mode 'a b'"
    store.close()


async def test_a_sub_agent_may_be_a_command_too():
    """Code loads it, and spawns it as any other."""
    async with open_supervisor(MemoryStore(), unattended="deny") as supervisor:
        run = await supervisor.start(commanding)
        assert (await run.result()).startswith("failed")
    assert made == [("coder", ("coder",), {})]


@agent
async def commanding(ctx: Context) -> str:
    return (await (await ctx.spawn(load_agent("fake:coder"), "x")).outcome()).kind


@pytest.mark.parametrize("reference", ["fake:", "fake: ", "fake:''", "fake:'", "other:coder x", "fake:coder\ud800'"])
def test_a_reference_without_a_command_is_refused(reference):
    """So is one of a scheme that is not known."""
    with pytest.raises(UnknownAgent):
        load_agent(reference)
    assert made == []


@pytest.mark.parametrize("error", [ValueError("no"), TypeError("no"), ImportError("pip install 'x[acp]'")])
def test_a_command_that_cannot_be_an_agent_is_refused_with_its_reason(monkeypatch, error):
    """A missing extra says what to install."""

    def fail(name, command, **options):
        raise error

    monkeypatch.setattr(named_agents, "fake_agent", fail)
    with pytest.raises(UnknownAgent, match=r"fake:coder: .*(no|acp)"):
        load_agent("fake:coder")


def test_a_configured_command_with_settings_of_its_own_is_not_made_without_them():
    """Its folder and variables are in the configuration, which the error names."""
    spec = loading.make_agent("fake", "mine", ["coder"], file="/srv/supervisor.toml", cwd="/srv")
    reference, file = locate(spec)
    assert loading.load_recorded(reference, file, "mine") is spec
    loading._named.clear()
    with pytest.raises(UnknownAgent, match=r"/srv/supervisor\.toml"):
        loading.load_recorded(reference, file, "mine")


async def test_a_model_cannot_name_a_command():
    """It names one of its agent's tools; whatever else it writes is an error that it reads."""

    @agent
    async def main(ctx: Context) -> list[str]:
        results = [await ctx.call(ToolCall("1", name, {})) for name in ("fake:coder", "coder")]
        return [result.details["reason"] for result in results]

    async with open_supervisor(MemoryStore()) as supervisor:
        assert await (await supervisor.start(main)).result() == ["unknown_tool", "unknown_tool"]
    assert made == []
