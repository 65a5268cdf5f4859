"""LangGraph: what a person decided is what happens, whatever middleware, batch or ids a graph has."""

import json
from typing import Any

import pytest
from dying import fork
from framework_scenes import kept_in_the_loop, opened
from framework_table import ChatModel, Wanted
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, HumanInTheLoopMiddleware, hook_config
from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt
from watching import next_of

from supervisor import Answer, Approve, Deny, MemoryStore
from supervisor.agents.langgraph import langgraph_agent
from supervisor.core import events as e
from supervisor.testing import virtual_asyncio

pytestmark = pytest.mark.anyio
ran: list[Any] = []
YES, NO = Approve(by="ana"), Deny(by="ana", reason="keep it")


@pytest.fixture
def anyio_backend():
    return virtual_asyncio()


@pytest.fixture(autouse=True)
def _nothing_has_happened(enter):
    enter(kept_in_the_loop())
    ran.clear()


@tool
async def drop(path: str) -> str:
    """Drop a table."""
    ran.append(path)
    return f"dropped {path}"


def planner_of(*calls, before=(), after=(), model=ChatModel, saver=None, asking=True, mode="batched", **options):
    """Return an agent whose model makes these calls once. `before`, `after`: middleware around the review."""

    async def script(said):
        return " and ".join(said.results) if said.results else [Wanted("drop", given, call) for call, given in calls]

    review = HumanInTheLoopMiddleware({"drop": asking}, edit_notice="", interrupt_mode=mode)
    middleware = [*before, review, *after]
    graph = create_agent(model(script=script), [drop], middleware=middleware, checkpointer=saver or InMemorySaver())
    return langgraph_agent("planner", graph, **options)


async def outcome_of(planner, decisions, store=None, **options):
    """Run an agent. `decisions`: by the path that a call would drop. Return the outcome, and what was asked."""
    asked = []
    async with opened(store, **options) as supervisor:
        run = await supervisor.start(planner, "go", session="s")
        async with run.watch_approvals() as watch:
            async for approval in watch:
                asked.append(approval)
                decision = decisions if approval.kind == "question" else decisions[approval.arguments["path"]]
                await supervisor.decide(approval.id, decision)
        return await run.outcome(), asked


class Jumps(AgentMiddleware):
    """Jumps to a node after the review."""

    def __init__(self, target):
        self.target = target

    @hook_config(can_jump_to=["tools", "end"])
    async def aafter_model(self, state, runtime):
        said = [each for each in state["messages"] if isinstance(each, AIMessage)]
        return {"jump_to": self.target} if len(said) == 1 and not ran else None


async def test_a_call_that_a_person_denied_does_not_run_although_the_graph_jumps_to_it():
    outcome, _ = await outcome_of(planner_of(("1", {"path": "a"}), before=[Jumps("tools")]), {"a": NO})
    assert (outcome.kind, ran) == ("failed", [])
    assert "this is not what they approved" in outcome.cause


async def test_a_jump_after_a_restart_leads_past_no_decision():
    saver, store = InMemorySaver(), MemoryStore()
    planner = planner_of(("1", {"path": "a"}), before=[Jumps("tools")], saver=saver)
    async with opened(store) as supervisor:
        run = await supervisor.start(planner, "go", session="s")
        waiting = await next_of(run.watch_approvals())
        left = fork(store)
    async with opened(left) as supervisor:
        await supervisor.decide(waiting.id, NO)
        outcome = await (await supervisor.resume("s")).outcome()
    assert (outcome.kind, ran) == ("failed", [])


async def test_a_graph_that_leaves_out_a_call_that_a_person_approved_has_failed():
    outcome, _ = await outcome_of(planner_of(("1", {"path": "a"}), before=[Jumps("end")]), {"a": YES})
    assert (outcome.kind, ran) == ("failed", [])
    assert "was approved, and the graph has ended without making it" in outcome.cause


@pytest.mark.parametrize("mode", ["batched", "per_call"])
async def test_calls_of_one_answer_that_have_one_id_are_decided_one_by_one(mode):
    planner = planner_of(("same", {"path": "a"}), ("same", {"path": "b"}), ("same", {"path": "c"}), mode=mode)
    outcome, _ = await outcome_of(planner, {"a": NO, "b": YES, "c": Approve(by="ana", arguments={"path": "d"})})
    assert (outcome.kind, sorted(ran)) == ("succeeded", ["b", "d"])


async def test_a_model_that_uses_an_id_again_makes_another_call():
    async def script(said):
        ways = [[Wanted("drop", {"path": "a"}, "1")], [Wanted("drop", {"path": "b"}, "1")], "done"]
        return ways[len(said.results)]

    review = HumanInTheLoopMiddleware({"drop": True}, edit_notice="")
    graph = create_agent(ChatModel(script=script), [drop], middleware=[review], checkpointer=InMemorySaver())
    outcome, _ = await outcome_of(langgraph_agent("planner", graph), {"a": NO, "b": YES})
    assert (outcome.kind, ran) == ("succeeded", ["b"])


class Rewrites(AgentMiddleware):
    async def awrap_tool_call(self, request, handler):
        return await handler(request.override(tool_call={**request.tool_call, "args": {"path": "/all"}}))


async def test_a_call_that_middleware_rewrites_after_the_approval_does_not_run():
    """What is shown is what runs."""
    outcome, _ = await outcome_of(planner_of(("1", {"path": "a"}), after=[Rewrites()]), {"a": YES})
    assert (outcome.kind, ran) == ("failed", [])


def two_calls_in_one_node():
    """Return a graph whose one node charges, and asks a person."""

    @tool
    async def charge(amount: int) -> str:
        """Charge."""
        ran.append(amount)
        return "charged"

    @tool
    async def confirm(text: str) -> str:
        """Ask."""
        return str(interrupt({"confirm": text}))

    async def model(state):
        if any(each.type == "tool" for each in state["messages"]):
            return {"messages": [AIMessage("done")]}
        wanted = [("charge", {"amount": 5}), ("confirm", {"text": "sure?"})]
        calls = [{"name": name, "args": args, "id": name} for name, args in wanted]
        return {"messages": [AIMessage("", tool_calls=calls)]}

    builder = StateGraph(MessagesState)
    builder.add_node("model", model)
    builder.add_node("tools", ToolNode([charge, confirm]))
    builder.add_edge(START, "model")
    builder.add_conditional_edges("model", lambda s: "tools" if s["messages"][-1].tool_calls else END, ["tools", END])
    builder.add_edge("tools", "model")
    return builder.compile(checkpointer=InMemorySaver())


@pytest.mark.parametrize("idempotent", [False, True])
async def test_an_answer_to_one_tool_of_a_node_repeats_no_other_unless_it_may_run_again(idempotent):
    planner = langgraph_agent("planner", two_calls_in_one_node(), idempotent=idempotent)
    outcome, asked = await outcome_of(planner, Answer(by="ana", value="yes"))
    expected = ("succeeded", [5, 5], 1) if idempotent else ("failed", [5], 0)
    assert (outcome.kind, ran, len(asked)) == expected


UNFIT = {
    "schema": ("drop", {"wrong": 1}, "path"),
    "nan": ("drop", {"path": "a", "more": [float("nan")]}, "nan"),
    "tool": ("dorp", {"path": "a"}, "there is no tool"),
}


@pytest.mark.parametrize("case", UNFIT)
async def test_no_person_is_asked_about_a_call_that_cannot_run(case):
    name, given, named = UNFIT[case]

    async def script(said):
        return said.results[0] if said.results else [Wanted(name, given, "1")]

    review = HumanInTheLoopMiddleware({"drop": True, "dorp": True})
    graph = create_agent(ChatModel(script=script), [drop], middleware=[review], checkpointer=InMemorySaver())
    store = MemoryStore()
    outcome, asked = await outcome_of(langgraph_agent("planner", graph), {}, store)
    assert (outcome.kind, ran, asked) == ("succeeded", [], [])
    assert named in outcome.value
    results = [row.event for row in store.journal("s") if isinstance(row.event, e.ToolCallFinished)]
    assert [json.loads(bytes(each.details)) for each in results if each.kind == "error"] == [
        {"reason": "invalid_arguments", "effect": "none"}
    ]


WORDS = {
    "text": ("This cannot be undone.", "This cannot be undone."),
    "function": (lambda call, state, runtime: f"{call['args']['path']} has 7 rows.", "a has 7 rows."),
    "none": (None, ""),
}


@pytest.mark.parametrize("case", WORDS)
@pytest.mark.parametrize("mode", ["batched", "per_call"])
async def test_the_description_that_a_graph_makes_for_its_reviewers_is_on_the_card_as_its_words(case, mode):
    said, shown = WORDS[case]
    asking = {"allowed_decisions": ["approve", "reject"]} | ({} if said is None else {"description": said})
    _, (asked,) = await outcome_of(planner_of(("1", {"path": "a"}), asking=asking, mode=mode), {"a": YES})
    assert (asked.because, ran) == (shown, ["a"])


@pytest.mark.parametrize("mode", ["batched", "per_call"])
async def test_agents_below_a_graph_may_use_the_ids_of_their_parent_and_each_call_is_decided_by_itself(mode):
    """Models that count their calls from one: a call of one agent is no call of another."""

    @tool
    async def look(at: str) -> str:
        """Look, which no person is asked about."""
        ran.append(f"look {at}")
        return "seen"

    async def below(said):
        ways = [[Wanted("look", {"at": "x"}, "1")], [Wanted("drop", {"path": "b"}, "1")], "below is done"]
        return ways[len(said.results)]

    review = HumanInTheLoopMiddleware({"drop": True, "delegate": True}, edit_notice="", interrupt_mode=mode)
    worker = create_agent(ChatModel(script=below), [look, drop], middleware=[review])

    @tool
    async def delegate(task: str) -> str:
        """Hand a task to the worker."""
        return str((await worker.ainvoke({"messages": [("human", task)]}))["messages"][-1].text)

    async def above(said):
        ways = [[Wanted("delegate", {"task": "t"}, "1")], [Wanted("drop", {"path": "a"}, "1")], "all is done"]
        return ways[len(said.results)]

    graph = create_agent(ChatModel(script=above), [delegate, drop], middleware=[review], checkpointer=InMemorySaver())
    decisions = {"t": YES, "b": NO, "a": YES}
    async with opened() as supervisor:
        run = await supervisor.start(langgraph_agent("planner", graph), "go")
        async with run.watch_approvals() as watch:
            async for approval in watch:
                (value,) = approval.arguments.values()
                await supervisor.decide(approval.id, decisions[value])
        outcome = await run.outcome()
    assert (outcome.kind, outcome.cause, ran) == ("succeeded", None, ["look x", "a"])
