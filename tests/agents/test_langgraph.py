"""LangGraph: interrupts, segments that were cut off, and what a later attempt could not resume."""

import operator
from contextlib import asynccontextmanager
from copy import deepcopy
from typing import Annotated, Any, TypedDict

import anyio
import pytest
from dying import fork
from framework_scenes import ANSWER, SEEN, kept_in_the_loop, opened, texts_of
from framework_table import ChatModel, Wanted
from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph.func import entrypoint, task
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import Command, interrupt
from watching import next_of

from supervisor import (
    Answer,
    Approve,
    Deny,
    InvalidInput,
    MemoryStore,
    RunBlocked,
    SqliteStore,
    allow,
    deny,
    open_supervisor,
)
from supervisor.agents.langgraph import langgraph_agent, run as langgraph_run, threads
from supervisor.core import events as e
from supervisor.runtime.operations.context import LocalContext
from supervisor.testing import replaced, virtual_asyncio

pytestmark = pytest.mark.anyio
OPTIONS: Any = {"input": lambda text: {"topic": text}, "output": lambda values: values["said"]}
effects: list[str] = []


@pytest.fixture
def anyio_backend():
    return virtual_asyncio()


@pytest.fixture(autouse=True)
def _nothing_has_happened(enter):
    enter(kept_in_the_loop())
    effects.clear()


class State(TypedDict, total=False):
    topic: str
    said: Annotated[list[Any], operator.add]


def does(name):
    async def node(state: State) -> State:
        effects.append(name)
        return {"said": [name]}

    return node


def asks(value, **schema):
    """Return a node that asks, and acts after the answer."""

    async def node(state: State) -> State:
        answer = interrupt(value, **schema)
        effects.append(f"told {answer}")
        return {"said": [answer]}

    return node


def graph_of(saver=None, interrupt_before=None, **nodes):
    """Return a graph of these nodes, one after the other."""
    builder, before = StateGraph(State), START
    for name, node in nodes.items():
        builder.add_node(name, node)
        builder.add_edge(before, name)
        before = name
    return builder.compile(checkpointer=InMemorySaver() if saver is None else saver, interrupt_before=interrupt_before)


def planner_of(graph, **options):
    return langgraph_agent("planner", graph, **{**OPTIONS, **options})


async def answer_all(supervisor, run, answers):
    """Answer each question by the first word of its text that `answers` knows. Return the texts."""
    asked = []
    async with run.watch_approvals() as watch:
        async for approval in watch:
            asked.append(approval.question)
            value = next(value for word, value in answers.items() if word in approval.question)
            await supervisor.decide(approval.id, Answer(value=value, by="ana"))
    return asked


# -- interrupts


async def test_an_entrypoint_gives_what_its_function_returns():
    """LangGraph's functional API: a task that has ended does not run again. A turn knows what the one before saved."""

    @task
    async def work(text):
        effects.append(text)
        return f"{text}!"

    @entrypoint(checkpointer=InMemorySaver())
    async def flow(text, *, previous=0):
        said = {"end": await work(text), "answer": interrupt("go on?")}
        return entrypoint.final(value=said | {"turns": previous or 0}, save=(previous or 0) + 1)

    spec = langgraph_agent("flow", flow, input=lambda text: text)
    async with opened() as supervisor:
        run = await supervisor.start(spec, "one", session="s")
        for turn, text in enumerate(("one", "two")):
            if turn:
                await supervisor.send("s", text)
                run = await supervisor.get_run("s")
            await answer_all(supervisor, run, {"go on?": "yes"})
            assert await run.result() == {"end": f"{text}!", "answer": "yes", "turns": turn}
    assert effects == ["one", "two"]


QUESTIONS = {
    "text": ({}, "as you like"),
    "yes or no": ({"response_schema": bool}, True),
    "a number": ({"response_schema": {"type": "integer"}}, 7),
    "one of": ({"response_schema": {"enum": ["red", "green"]}}, "green"),
    "an object": ({"response_schema": {"type": "object"}}, {"a": [1]}),
}


@pytest.mark.parametrize("kind", QUESTIONS)
async def test_an_interrupt_is_a_question_that_shows_its_value(kind):
    """Its response schema says what the answer is."""
    schema, value = QUESTIONS[kind]
    graph = graph_of(plan=does("plan"), review=asks({"colour": "red?"}, **schema))
    async with opened() as supervisor:
        run = await supervisor.start(planner_of(graph), "paint")
        question = await next_of(run.watch_approvals())
        assert "planner.review" in question.question
        assert "red?" in question.question
        await supervisor.decide(question.id, Answer(value=value, by="ana"))
        assert await run.result() == ["plan", value]
    assert effects == ["plan", f"told {value}"]


async def test_each_interrupt_of_a_node_gets_its_own_answer():
    """The node begins again for each, as everywhere in LangGraph; what comes after the interrupts happens once."""

    async def node(state: State) -> State:
        told = [interrupt("first?"), interrupt("second?")]
        effects.append("node")
        return {"said": told}

    async with opened() as supervisor:
        run = await supervisor.start(planner_of(graph_of(node=node)), "go")
        assert len(await answer_all(supervisor, run, {"first": "1", "second": "2"})) == 2
        assert await run.result() == ["1", "2"]
    assert effects == ["node"]


async def test_a_breakpoint_asks_whether_the_graph_goes_on():
    graph = graph_of(interrupt_before=["act"], plan=does("plan"), act=does("act"))
    async with opened() as supervisor:
        run = await supervisor.start(planner_of(graph), "go")
        question = await next_of(run.watch_approvals())
        assert "act" in question.question
        assert effects == ["plan"]
        await supervisor.decide(question.id, Answer(value="go on", by="ana"))
        assert await run.result() == ["plan", "act"]


@tool
async def delete(path: str) -> str:
    """Delete a file."""
    effects.append(path)
    return f"deleted {path}"


def deleter(allowed=True, mode="batched", calls=("a",)):
    """Return a graph whose subgraph is an agent that deletes files."""

    async def script(said):
        if said.results:
            return " and ".join(said.results)
        return [Wanted("delete", {"path": path}, f"c{number}") for number, path in enumerate(calls)]

    model = ChatModel(script=script)
    middleware = HumanInTheLoopMiddleware({"delete": allowed}, interrupt_mode=mode, edit_notice="")
    builder = StateGraph(MessagesState)
    builder.add_node("cleaner", create_agent(model, [delete], middleware=[middleware]))
    builder.add_edge(START, "cleaner")
    return builder.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("mode", ["batched", "per_call"])
async def test_an_approval_of_a_subgraph_shows_its_path(mode):
    """Of three calls one is approved, one edited and one rejected, in the reverse order."""
    async with opened() as supervisor:
        planner = langgraph_agent("planner", deleter(mode=mode, calls="abc"))
        run = await supervisor.start(planner, "clean up", session="s")
        async with run.watch_approvals() as watch:
            asked = [await anext(watch) for _ in range(3)]
        assert {(each.tool, each.editable) for each in asked} == {("planner.cleaner.delete", True)}
        decisions = {
            "a": Approve(by="ana"),
            "b": Approve(by="ana", arguments={"path": "x"}),
            "c": Deny(by="ana", reason="mine"),
        }
        for each in reversed(asked):
            await supervisor.decide(each.id, decisions[each.arguments["path"]])
        said = await run.result()
        journal = [row.event for row in supervisor._runner.journal.store.journal("s")]
    assert sorted(effects) == ["a", "x"]
    assert "mine" in said
    allowed = [each for each in journal if isinstance(each, e.ToolCallFinished) and "next segment" in each.content]
    assert len(allowed) == 2  # the journal does not say that the tool has run


async def test_only_the_decisions_that_the_middleware_allows_are_offered():
    """Without `edit` the arguments stay; with `respond` alone, the person answers in the place of the tool."""
    async with opened() as supervisor:
        graph = deleter({"allowed_decisions": ["approve", "reject"]})
        run = await supervisor.start(langgraph_agent("planner", graph), "clean up")
        approval = await next_of(run.watch_approvals())
        assert not approval.editable
        run = await supervisor.start(langgraph_agent("asker", deleter({"allowed_decisions": ["respond"]})), "clean up")
        question = await next_of(run.watch_approvals())
        assert question.kind == "question"
        await supervisor.decide(question.id, Answer(value="I did it myself", by="ana"))
        assert await run.result() == "I did it myself"
    assert effects == []


async def test_edited_arguments_must_fit_the_schema_of_a_request_that_shows_one():
    """The decision is refused. Without a schema, the tool itself refuses them, and the model reads why."""
    misfit = Approve(by="ana", arguments={"path": 3})
    async with opened() as supervisor:
        run = await supervisor.start(langgraph_agent("planner", deleter(mode="per_call")), "clean up")
        approval = await next_of(run.watch_approvals())
        with pytest.raises(InvalidInput, match="path"):
            await supervisor.decide(approval.id, misfit)
        await run.cancel()
        run = await supervisor.start(langgraph_agent("cleaner", deleter()), "clean up")
        await supervisor.decide((await next_of(run.watch_approvals())).id, misfit)
        assert "path" in await run.result()
    assert effects == []


RULES = {"allows": (allow("planner.cleaner.delete"), ["a"]), "denies": (deny("planner.cleaner.delete"), [])}


@pytest.mark.parametrize("kind", RULES)
async def test_a_rule_decides_in_the_place_of_a_person(kind):
    rule, done = RULES[kind]
    async with opened(rules=[rule]) as supervisor:
        await (await supervisor.start(langgraph_agent("planner", deleter()), "clean up")).result()
    assert effects == done


async def test_a_sub_agent_that_the_process_does_not_know_is_named():
    """Its tool was made by code that a later process does not run."""
    wants = {"__supervisor_agent__": "gone:researcher", "arguments": {}}
    async with opened() as supervisor:
        outcome = await (await supervisor.start(planner_of(graph_of(ask=asks(wants))), "go")).outcome()
        assert (outcome.kind, "gone:researcher" in outcome.cause) == ("failed", True)


# -- segments that were cut off


class Remembering(InMemorySaver):
    """Keeps what is left if the process is killed after any write of the checkpointer, or after any append."""

    def __init__(self, store):
        super().__init__()
        self.left = []
        self._store = store

    def keep(self):
        saver = InMemorySaver()
        for name in ("storage", "writes", "blobs"):
            getattr(saver, name).update(deepcopy(getattr(self, name)))
        self.left.append((fork(self._store), saver, list(effects)))

    async def aput(self, *args):
        try:
            return await super().aput(*args)
        finally:
            self.keep()

    async def aput_writes(self, *args):
        await super().aput_writes(*args)
        self.keep()


class Remembered(MemoryStore):
    saver: Any = None

    def commit(self):
        super().commit()
        if self.saver is not None:
            self.saver.keep()


def work(saver):
    """Return a graph of two nodes at once, a node that asks, and one more."""
    builder = StateGraph(State)
    for name, node in {"a": does("a"), "b": does("b"), "review": asks("review?"), "act": does("act")}.items():
        builder.add_node(name, node)
    for before, after in ((START, "a"), (START, "b"), (["a", "b"], "review"), ("review", "act")):
        builder.add_edge(before, after)
    return builder.compile(checkpointer=saver)


async def live(store, saver, goes_on, **options):
    """Run the graph to its end. Return its outcome, and the questions that it asked."""
    async with opened(store) as supervisor:
        run = await supervisor.start(planner_of(work(saver), **options), "go", session="s")
        asked = await answer_all(supervisor, run, {"review?": "yes", "go on": goes_on})
        return await run.outcome(), asked


async def lives():
    """Return what is left of each life that was ended by a kill: the store, the checkpointer and the effects."""
    effects.clear()
    store = Remembered()
    store.saver = Remembering(store)
    assert (await live(store, store.saver, "stop"))[0].kind == "succeeded"
    assert len(store.saver.left) > 15
    return store.saver.left


def dangling(store):
    rows = [row.event for row in store.journal("s")]
    asked = {event.operation for event in rows if isinstance(event, e.ToolCallRequested)}
    return asked - {event.operation for event in rows if isinstance(event, e.ToolCallFinished)}


@pytest.mark.parametrize("goes_on", ["go on", "stop"])
async def test_after_a_death_at_any_write_no_node_runs_twice_unasked(goes_on):
    """T1: of the journal or of the checkpointer. Where the thread shows that the graph rests, no person is asked."""
    unasked, left = 0, await lives()
    for store, saver, done in left:
        effects[:] = done
        outcome, asked = await live(store, saver, goes_on)
        was_asked = any("go on" in question for question in asked)
        unasked += not was_asked
        twice = [each for each in effects if effects.count(each) > 1]
        assert not twice or (was_asked and goes_on == "go on"), (done, effects)
        assert outcome.kind == ("failed" if was_asked and goes_on == "stop" else "succeeded")
        assert outcome.kind == "failed" or {*effects} == {"a", "b", "told yes", "act"}
        assert dangling(store) == set()
    assert 0 < unasked < len(left)


async def test_an_idempotent_graph_goes_on_by_itself():
    for store, saver, done in await lives():
        effects[:] = done
        outcome, asked = await live(store, saver, "stop", idempotent=True)
        assert outcome.kind == "succeeded"
        assert not any("go on" in question for question in asked)


async def test_an_answer_is_not_given_to_the_next_interrupt():
    """Someone has answered the thread's interrupt elsewhere, with LangGraph's own means, and another one waits."""

    async def node(state: State) -> State:
        return {"said": [interrupt("first?"), interrupt("second?")]}

    graph = graph_of(node=node)
    async with opened() as supervisor:
        run = await supervisor.start(planner_of(graph), "go", session="s")
        first = await next_of(run.watch_approvals())
        thread = {"configurable": {"thread_id": "s"}}
        (waiting,) = (await graph.aget_state(thread)).interrupts
        await graph.ainvoke(Command(resume={waiting.id: "elsewhere"}), thread)
        await supervisor.decide(first.id, Answer(value="here", by="ana"))
        await answer_all(supervisor, run, {"second": "2"})
        assert await run.result() == ["elsewhere", "2"]


async def test_a_node_that_raises_fails_the_run_and_a_retry_goes_on_where_a_person_says_so():
    """R10: on the same thread. The nodes that had ended do not run again."""

    async def fails(state: State) -> State:
        effects.append("fails")
        if effects.count("fails") == 1:
            raise ConnectionError("the line is down")
        return {"said": ["repaired"]}

    async with opened() as supervisor:
        planner = planner_of(graph_of(plan=does("plan"), fails=fails))
        outcome = await (await supervisor.start(planner, "go", session="s")).outcome()
        assert outcome.kind == "failed"
        assert "the line is down" in outcome.cause
        run = await supervisor.retry("s")
        await answer_all(supervisor, run, {"the line is down": "go on"})
        assert await run.result() == ["plan", "repaired"]
    assert effects == ["plan", "fails", "fails"]


async def test_a_segment_has_a_deadline():
    async def sleeps(state: State) -> State:
        await anyio.sleep(3600)
        return {}

    async with opened() as supervisor:
        planner = planner_of(graph_of(sleeps=sleeps), segment_timeout=30)
        outcome = await (await supervisor.start(planner, "go")).outcome()
        assert (outcome.kind, "deadline" in outcome.cause) == ("failed", True)


async def test_the_events_of_the_stream_are_heartbeats():
    """W5: ten nodes of 50 seconds each outlive a budget of 60 seconds; one of 70 seconds stalls after the first."""

    def sleeps(seconds):
        async def node(state: State) -> State:
            await anyio.sleep(seconds)
            return {}

        return node

    kinds = []
    async with opened() as supervisor:
        for seconds in ([50] * 10, [50, 70]):
            graph = graph_of(**{f"n{n}": sleeps(each) for n, each in enumerate(seconds)}, end=does("end"))
            kinds.append((await (await supervisor.start(planner_of(graph), "go")).outcome()).kind)
    assert kinds == ["succeeded", "stalled"]


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_restart_after_a_stall_goes_on_with_the_graph(idempotent):
    """R5: a person is asked first, unless the graph is idempotent."""

    async def silent(state: State) -> State:
        effects.append("silent")
        await anyio.sleep(3600 if effects.count("silent") == 1 else 1)
        return {"said": ["at last"]}

    async with opened() as supervisor:
        graph = graph_of(plan=does("plan"), silent=silent)
        planner = planner_of(graph, restart="transient", idempotent=idempotent)
        run = await supervisor.start(planner, "go")
        assert len(await answer_all(supervisor, run, {"cut off": "go on"})) == (not idempotent)
        assert await run.result() == ["plan", "at last"]
    assert effects == ["plan", "silent", "silent"]


async def test_a_turn_goes_on_with_the_state_that_the_turn_before_has_left():
    """A session is one thread."""
    saver = InMemorySaver()
    async with opened() as supervisor:
        await (await supervisor.start(planner_of(graph_of(saver, plan=does("plan"))), "go", session="s")).result()
        await supervisor.send("s", "again")
        assert await (await supervisor.get_run("s")).result() == ["plan", "plan"]
    assert {*saver.storage} == {"s"}


async def test_a_turn_that_failed_is_no_part_of_the_next_one():
    """The thread goes on from the checkpoint at which the last good turn has ended."""

    async def fails_once(state: State) -> State:
        effects.append("tried")
        if effects.count("tried") == 2:
            raise ValueError("no")
        return {"said": [state["topic"]]}

    saver = InMemorySaver()
    planner = planner_of(graph_of(saver, plan=does("plan"), rest=fails_once))
    kinds = []
    async with opened() as supervisor:
        outcome = await (await supervisor.start(planner, "one", session="s")).outcome()
        for text in ("two", "three"):
            kinds.append(outcome.kind)
            await supervisor.send("s", text)
            outcome = await (await supervisor.get_run("s")).outcome()
    assert kinds == ["succeeded", "failed"]
    assert outcome.value == ["plan", "one", "plan", "three"]
    assert {*saver.storage} == {"s"}


async def test_a_session_of_before_goes_on_in_its_latest_thread():
    """A former version had a thread for each turn, and saved none."""

    async def former_save(self, state):
        await save(self, {name: state[name] for name in ("output", "messages")})

    async def former_place(ctx, graph):
        return threads.Place(thread=ctx.session if ctx.run_number == 1 else f"{ctx.session}:{ctx.run_number}")

    saver, save = InMemorySaver(), LocalContext.save
    planner = planner_of(graph_of(saver, plan=does("plan")))
    async with opened() as supervisor:
        with replaced(LocalContext, "save", former_save), replaced(langgraph_run, "place_of", former_place):
            await (await supervisor.start(planner, "one", session="s")).result()
            await supervisor.send("s", "two")
            assert await (await supervisor.get_run("s")).result() == ["plan"]
        for count in (2, 3):
            await supervisor.send("s", "three")
            assert await (await supervisor.get_run("s")).result() == ["plan"] * count
    assert {*saver.storage} == {"s", "s:2"}


class Uncopied(InMemorySaver):
    """Does not keep what is copied into another thread."""

    is_kept = False

    async def aput(self, config, *args):
        if config["configurable"]["thread_id"] == "f:2" and not self.is_kept:
            self.is_kept = True
            return config
        return await super().aput(config, *args)


@pytest.mark.parametrize("saver", [InMemorySaver, Uncopied])
async def test_a_fork_has_a_copy_of_the_state_or_says_that_it_is_lost(saver):
    """R10: both go on, each in a thread of its own."""
    kept = saver()
    planner = planner_of(graph_of(kept, plan=does("plan")))
    store = MemoryStore()
    async with opened(store) as supervisor:
        await (await supervisor.start(planner, "one", session="s")).result()
        await supervisor.send("s", "two")
        await (await supervisor.get_run("s")).result()
        begun = [row.position for row in store.journal("s") if isinstance(row.event, e.MessageReceived)][-1]
        await supervisor.fork("s", before=begun, new="f")
        await supervisor.send("f", "other")
        found = await (await supervisor.get_run("f")).result()
        await supervisor.send("s", "three")
        assert await (await supervisor.get_run("s")).result() == ["plan"] * 3
        said = str(await supervisor.find_entries("f", limit=None))
    is_lost = saver is Uncopied
    assert found == (["plan"] if is_lost else ["plan", "plan"])
    assert ("is lost for this fork" in said) is is_lost


async def test_after_a_death_in_a_later_turn_no_node_runs_twice_unasked():
    """T1: what the turn before has left is not taken for the end of this one."""
    store = Remembered()
    saver = store.saver = Remembering(store)
    assert (await live(store, saver, "stop"))[0].kind == "succeeded"
    begun = len(saver.left)
    effects.clear()
    async with opened(store) as supervisor:
        await supervisor.send("s", "again")
        run = await supervisor.get_run("s")
        await answer_all(supervisor, run, {"review?": "yes"})
        await run.result()
    assert sorted(effects) == ["a", "act", "b", "told yes"]
    count = 0
    for left, threads_left, done in saver.left[begun:]:
        events = [row.event for row in left.journal("s")]
        if sum(type(each) in e.BEGINS_RUN for each in events) < 2 or isinstance(events[-1], e.RunFinished):
            continue
        effects[:] = done
        async with opened(left) as supervisor:
            await supervisor.start(planner_of(work(threads_left)), "go", session="s")
            run = await supervisor.get_run("s")
            asked = await answer_all(supervisor, run, {"review?": "yes", "go on": "go on"})
            outcome = await run.outcome()
        assert outcome.kind == "succeeded", outcome
        twice = {each for each in effects if effects.count(each) > 1}
        assert not twice or any("go on" in each for each in asked), effects
        assert {*effects} == {"a", "b", "told yes", "act"}
        count += 1
    assert count > 10


async def test_a_fork_does_not_go_on_with_the_thread_of_its_session():
    graph = graph_of(review=asks("review?"))
    async with opened() as supervisor:
        run = await supervisor.start(planner_of(graph), "go", session="s")
        await next_of(run.watch_approvals())
        entry = [row.position for row in supervisor._runner.journal.store.journal("s")][-1]
        fork = await supervisor.fork("s", before=entry, new="f")
        with pytest.raises(RunBlocked, match="is a fork of"):
            await (await supervisor.get_run(fork.session)).outcome()


# -- what is refused


BAD = {
    "no graph": (lambda: langgraph_agent("a", "graph"), "compiled graph"),
    "no checkpointer": (lambda: planner_of(graph_of(False, plan=does("plan"))), "checkpointer"),
    "no messages": (lambda: langgraph_agent("a", graph_of(plan=does("plan"))), "input="),
    "a context that is no factory": (lambda: planner_of(graph_of(plan=does("plan")), deps=["x"]), "deps="),
    "breakpoints without a person": (
        lambda: planner_of(graph_of(interrupt_before=["plan"], plan=does("plan")), idempotent=True),
        "breakpoints",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_a_graph_that_cannot_be_resumed_is_refused(case):
    """The error names the object and the cure."""
    declare, named = BAD[case]
    with pytest.raises(InvalidInput, match=named):
        declare()


ENDS_BADLY = {
    "an output": (lambda: planner_of(graph_of(plan=does("plan")), output=lambda values: object()), "output="),
    "an interrupt": (lambda: planner_of(graph_of(review=asks(b"\xff"))), "interrupt"),
}


@pytest.mark.parametrize("case", ENDS_BADLY)
async def test_an_output_or_an_interrupt_that_is_no_json_is_refused(case):
    make, named = ENDS_BADLY[case]
    async with opened() as supervisor:
        outcome = await (await supervisor.start(make(), "go")).outcome()
        assert (outcome.kind, named in outcome.cause) == ("failed", True), outcome


async def test_a_thread_that_was_there_before_the_session_is_refused():
    """A graph would go on in the middle of something else."""
    graph = graph_of(plan=does("plan"))
    await graph.ainvoke({"topic": "other"}, {"configurable": {"thread_id": "s"}})
    async with opened() as supervisor:
        outcome = await (await supervisor.start(planner_of(graph), "go", session="s")).outcome()
        assert (outcome.kind, "another thread s" in outcome.cause) == ("failed", True)
    assert effects == ["plan"]


@asynccontextmanager
async def in_memory():
    yield graph_of(plan=does("plan"))


@asynccontextmanager
async def in_sqlite_in_memory():
    async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
        yield graph_of(saver, plan=does("plan"))


forgets = langgraph_agent("forgets", in_memory, **OPTIONS)
forgets_sqlite = langgraph_agent("forgets_sqlite", in_sqlite_in_memory, **OPTIONS)


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@pytest.mark.parametrize("planner", [forgets, forgets_sqlite])
async def test_a_checkpointer_that_dies_before_the_store_is_refused(planner, tmp_path, monkeypatch):
    """With a store in memory, both die; then it may."""
    monkeypatch.undo()
    outcomes = []
    for store in (SqliteStore(tmp_path / "state.db"), MemoryStore()):
        async with open_supervisor(store) as supervisor:
            outcomes.append(await (await supervisor.start(planner, "go")).outcome())
    assert [each.kind for each in outcomes] == ["failed", "succeeded"]
    assert "AsyncSqliteSaver" in outcomes[0].cause
    assert effects == ["plan"]


async def test_a_thread_that_the_checkpointer_has_lost_is_refused():
    """The graph would begin again in the middle of the session."""
    saver = InMemorySaver()
    async with opened() as supervisor:
        graph = graph_of(saver, plan=does("plan"), review=asks("review?"))
        run = await supervisor.start(planner_of(graph), "go", session="s")
        question = await next_of(run.watch_approvals())
        await saver.adelete_thread("s")
        await supervisor.decide(question.id, Answer(value="yes", by="ana"))
        outcome = await run.outcome()
        assert (outcome.kind, "does not know the thread s" in outcome.cause) == ("failed", True)
    assert effects == ["plan"]


async def test_a_checkpointer_that_is_not_asynchronous_is_refused(tmp_path):
    with SqliteSaver.from_conn_string(str(tmp_path / "threads.db")) as saver:
        async with opened() as supervisor:
            outcome = await (await supervisor.start(planner_of(graph_of(saver, plan=does("plan"))), "go")).outcome()
    assert (outcome.kind, "AsyncSqliteSaver" in outcome.cause) == ("failed", True)
    assert effects == []


@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_on_trio_it_is_refused_before_anything_is_journaled():
    async with open_supervisor(MemoryStore()) as supervisor:
        with pytest.raises(InvalidInput, match="asyncio"):
            await supervisor.start(planner_of(graph_of(plan=does("plan"))), "go", session="s")
        assert not (await supervisor.find_sessions()).items


class Telling(BaseChatModel):
    """Writes its text piece by piece, as a text or as blocks of content."""

    @property
    def _llm_type(self):
        return "telling"

    def _generate(self, *args, **kwargs):
        raise NotImplementedError

    async def _astream(self, messages, *args, **kwargs):
        for piece in ANSWER:
            await anyio.sleep(1)
            content = piece if len(messages) == 1 else [{"type": "text", "text": piece}, {"type": "thinking"}]
            yield ChatGenerationChunk(message=AIMessageChunk(content))
        await anyio.sleep(1)


async def test_people_see_what_chat_models_write():
    """While they write, with a blank line between two answers; what a node returns is no text that was written."""

    async def tells(state):
        return {"messages": [await Telling().ainvoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("one", tells)
    graph.add_node("two", tells)
    graph.add_edge(START, "one")
    graph.add_edge("one", "two")
    agent = langgraph_agent("teller", graph.compile(checkpointer=InMemorySaver()))
    async with opened() as supervisor:
        assert await texts_of(supervisor, agent) == SEEN
