"""One suite for the agents of all frameworks: what people decide, what models read, and what a death leaves."""

import importlib
import sys

import agents
import anyio
import pytest
from dying import fork
from framework_scenes import approve_all, kept_in_the_loop, opened
from framework_table import FRAMEWORKS, Said, Wanted
from langchain_core.messages import AIMessage
from openai.types.responses.response_usage import InputTokensDetails
from pydantic_ai import Agent as PydanticAgent, ModelResponse, RequestUsage
from pydantic_ai.models.test import TestModel
from watching import next_of

from supervisor import Approve, Budget, Context, Deny, InvalidInput, MemoryStore, Usage, agent, allow, ask, deny
from supervisor.agents.langgraph.guard import _usage_of as spoken
from supervisor.agents.openai_agents.io import _used
from supervisor.agents.pydantic_ai.agent import _usage_of as answered
from supervisor.core import events as e
from supervisor.testing import virtual_asyncio

pytestmark = pytest.mark.anyio
WEEK = 7 * 86_400.0
effects: list[str] = []
requests: list[Said] = []


@pytest.fixture
def anyio_backend():
    return virtual_asyncio()


@pytest.fixture(params=FRAMEWORKS, ids=lambda framework: framework.name)
def framework(request):
    """One framework; a test of what it cannot do is skipped, and says why."""
    if (why := request.param.cannot.get(request.function.__name__)) is not None:
        pytest.skip(why)
    return request.param


@pytest.fixture(autouse=True)
def _nothing_has_happened(enter):
    enter(kept_in_the_loop())
    effects.clear()
    requests.clear()


async def delete(path: str) -> str:
    """Delete a file."""
    effects.append(path)
    return f"deleted {path}"


def wants(*paths):
    """Return calls of `delete`, one for each path."""
    return [Wanted("delete", {"path": path}, f"c{number}") for number, path in enumerate(paths)]


def script_of(*answers):
    """Return a script that gives these answers in each turn, and then what the tools have returned."""

    async def script(said):
        requests.append(said)
        done = 0
        for answer in answers:
            if done == len(said.results):
                return answer
            done += len(answer)
        return " and ".join(said.results)

    return script


def cleaner_of(framework, *answers, asks=True, **options):
    return framework.agent("cleaner", script_of(*answers), [framework.tool(delete, asks=asks)], **options)


PACKAGES = [
    ("pydantic_ai", "supervisor.agents.pydantic_ai", "pydantic-ai"),
    ("agents", "supervisor.agents.openai_agents", "openai-agents"),
    ("langgraph.types", "supervisor.agents.langgraph", "langgraph"),
]
DECISIONS = {
    "allow": (Approve(by="ana"), "deleted a", ["a"]),
    "deny": (Deny(by="ana", reason="keep it"), "denied by ana: keep it", []),
    "edit": (Approve(by="ana", arguments={"path": "b"}), "deleted b", ["b"]),
}


@pytest.mark.parametrize("decided", DECISIONS)
async def test_a_person_decides_about_a_call(framework, decided):
    """A tool that needs an approval asks as AGENT.TOOL; the model reads the result, or the denial with its reason. It
    reads, too, which arguments a person has put in place of its own, and that a denied call will be denied again."""
    decision, said, done = DECISIONS[decided]
    async with opened() as supervisor:
        run = await supervisor.start(cleaner_of(framework, wants("a")), "clean up")
        approval = await next_of(run.watch_approvals())
        assert (approval.tool, approval.arguments) == ("cleaner.delete", {"path": "a"})
        await supervisor.decide(approval.id, decision)
        heard = await run.result()
        assert said in heard
        if decided == "edit" and framework.name != "langgraph":  # there the edited call is in the model's own message
            assert '{"path": "b"}' in heard
        assert ("again" in heard) == (decided == "deny")
        assert (await supervisor.decide(approval.id, Approve(by="bo"))).kind != "accepted"
    assert effects == done


async def test_edited_arguments_must_fit_the_tool(framework):
    """Its own schema refuses the decision and names the argument, also after a death; the call still waits."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(cleaner_of(framework, wants("a")), "clean up")
        approval = await next_of(run.watch_approvals())
        with pytest.raises(InvalidInput, match="path"):
            await supervisor.decide(approval.id, Approve(by="ana", arguments={"path": 3}))
        async with opened(fork(store)) as other:
            with pytest.raises(InvalidInput, match="path"):
                await other.decide(approval.id, Approve(by="ana", arguments={"path": 3}))
        await supervisor.decide(approval.id, Approve(by="ana", arguments={"path": "b"}))
        assert (await run.result()).endswith("deleted b")
    assert effects == ["b"]


async def test_approvals_are_answered_in_any_order(framework):
    """Three calls of one answer ask together, each under its own id."""
    async with opened() as supervisor:
        run = await supervisor.start(cleaner_of(framework, wants("a", "b", "c")), "clean up")
        async with run.watch_approvals() as watch:
            asked = [await anext(watch) for _ in range(3)]
        for approval in reversed(asked):
            await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == "deleted a and deleted b and deleted c"
    assert sorted(effects) == ["a", "b", "c"]


RULES = {
    "asks": (ask("cleaner.delete"), None, None),
    "allows": (allow("cleaner.delete"), "deleted a", ["a"]),
    "denies": (deny("cleaner.delete"), "denied by a rule from code: cleaner.delete", []),
}


@pytest.mark.parametrize("asks", [False, True])
@pytest.mark.parametrize("kind", RULES)
async def test_a_rule_beats_what_the_framework_says(framework, kind, asks):
    """A7: also its "needs no approval"."""
    rule, said, done = RULES[kind]
    async with opened(rules=[rule]) as supervisor:
        run = await supervisor.start(cleaner_of(framework, wants("a"), asks=asks), "clean up")
        if said is None:
            approval = await next_of(run.watch_approvals())
            await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == (said or "deleted a")
    assert effects == (["a"] if done is None else done)


@pytest.mark.parametrize("policy", ["allow", "ask"])
async def test_the_wrapper_says_what_other_tools_do(framework, policy):
    """A tool that needs no approval runs at once, unless the wrapper wants it asked about."""
    async with opened() as supervisor:
        run = await supervisor.start(cleaner_of(framework, wants("a"), asks=False, policy=policy), "clean up")
        if policy == "ask":
            approval = await next_of(run.watch_approvals())
            await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == "deleted a"


async def fails(path: str) -> str:
    """Fail."""
    raise ConnectionError(f"the line to {path} is down")


async def test_a_model_reads_the_error_of_a_tool(framework):
    """Where the framework lets it. In Pydantic AI an exception that is no signal of its own ends the run."""
    async with opened() as supervisor:
        script = script_of([Wanted("fails", {"path": "a"}, "c1")])
        run = await supervisor.start(framework.agent("cleaner", script, [framework.tool(fails)]), "clean up")
        outcome = await run.outcome()
    assert (outcome.kind == "failed") is (framework.name == "pydantic_ai")
    assert "error" in (outcome.cause or outcome.value).lower()


async def test_a_cancel_withdraws_what_is_asked(framework):
    """W8: nothing runs, and no call is left without a result."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(cleaner_of(framework, wants("a", "b")), "clean up", session="s")
        await next_of(run.watch_approvals())
        await supervisor.cancel("s", by="ana")
        assert (await run.outcome()).kind == "cancelled"
        assert not (await supervisor.find_approvals()).items
    assert effects == []
    assert dangling(store) == set()


def dangling(store):
    """Return the calls without a result."""
    rows = [row.event for row in store.journal("s")]
    asked = {event.operation for event in rows if isinstance(event, e.ToolCallRequested)}
    return asked - {event.operation for event in rows if isinstance(event, e.ToolCallFinished | e.OperationAbandoned)}


async def test_a_silent_model_stalls(framework):
    """W5: it has `first_progress_timeout` until the first part of its answer."""

    async def script(said):
        await anyio.sleep(3600)
        return "too late"

    async with opened() as supervisor:
        run = await supervisor.start(framework.agent("cleaner", script, first_progress_timeout=60), "clean up")
        before = anyio.current_time()
        assert (await run.outcome()).kind == "stalled"
        assert anyio.current_time() - before < 120


async def test_a_week_later_the_run_wakes_from_disk(framework):
    """It has left memory; the model is not asked again for what it has answered."""
    async with opened(passivate_after=1.0) as supervisor:
        run = await supervisor.start(cleaner_of(framework, wants("a")), "clean up", session="s")
        approval = await next_of(run.watch_approvals())
        await anyio.sleep(WEEK)
        assert not supervisor._runner.attempts.live
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == "deleted a"
    assert [len(said.results) for said in requests] == [0, 1]


@pytest.mark.parametrize("paths", [("a", "b"), ("a", "a")])
async def test_models_may_repeat_their_ids(framework, paths):
    """In one answer and in the next: each call runs once, and has its own result."""
    again = [Wanted("delete", {"path": path}, "same") for path in paths]
    async with opened() as supervisor:
        run = await supervisor.start(cleaner_of(framework, again, again, asks=False), "clean up")
        said = await run.result()
    assert effects == [*paths, *paths]
    assert said.count("deleted") == 4


async def test_a_second_turn_knows_the_first(framework):
    """R7: the messages of earlier turns come before the text of this one, also in another process."""

    async def script(said):
        requests.append(said)
        return " then ".join(said.texts)

    store = MemoryStore()
    talker = framework.agent("cleaner", script)
    async with opened(store) as supervisor:
        assert await (await supervisor.start(talker, "one", session="s")).result() == "one"
    async with opened(fork(store)) as supervisor:
        await supervisor.send("s", "two")
        assert await (await supervisor.get_run("s")).result() == "one then two"
        await supervisor.send("s", "three")
        assert await (await supervisor.get_run("s")).result() == "one then two then three"


@agent
async def researcher(ctx, question: str) -> str:
    """Finds out."""
    return f"the answer to {question}"


async def test_a_model_starts_a_sub_agent_of_ours(framework):
    """By `supervisor_tool`: a rule asks about it by its name, and it has a session of its own."""
    script = script_of([Wanted("researcher", {"question": "why"}, "c1")])
    parent = framework.agent("cleaner", script, [framework.sub_agent(researcher)])
    async with opened(rules=[ask("researcher")]) as supervisor:
        run = await supervisor.start(parent, "find out", session="s")
        approval = await next_of(run.watch_approvals())
        assert (approval.tool, approval.arguments) == ("researcher", {"question": "why"})
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == "the answer to why"
        assert len((await supervisor.find_sessions(root="s")).items) == 2


async def test_an_approval_of_a_sub_agent_is_asked_below_it(framework):
    """A nested approval: an agent of the framework below another one, each with its own calls."""
    below = cleaner_of(framework, wants("a"))
    script = script_of([Wanted("cleaner", {"text": "clean up"}, "c1")])
    async with opened() as supervisor:
        run = await supervisor.start(framework.agent("boss", script, [framework.sub_agent(below)]), "work")
        approval = await next_of(run.watch_approvals())
        assert (approval.path, approval.tool) == (("boss", "cleaner"), "cleaner.delete")
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == "deleted a"


async def test_a_tool_of_an_mcp_server_is_a_call(framework):
    """Its server is not needed to replay what it has listed and done."""
    store = MemoryStore()
    cleaner = framework.mcp_agent("cleaner", script_of(wants("a"), wants("b")), delete)
    async with opened(store) as supervisor:
        run = await supervisor.start(cleaner, "clean up", session="s")
        first = await next_of(run.watch_approvals())
        assert (first.tool, first.arguments) == ("cleaner.delete", {"path": "a"})
        left = fork(store)
    async with opened(left) as supervisor:
        run = await supervisor.resume("s")
        await approve_all(supervisor, run)
        assert await run.result() == "deleted a and deleted b"
    assert effects == ["a", "b"]


class Copying(MemoryStore):
    """Keeps what a process leaves if it is killed just after, or just before the next, append."""

    def __init__(self):
        super().__init__()
        self.left = []

    def commit(self):
        super().commit()
        if self.left:
            self.left[-1][1:] = [list(effects), list(requests)]
        self.left.append([fork(self), list(effects), list(requests)])


async def test_after_a_death_at_any_append_nothing_happens_twice(framework):
    """T1, R1: no tool runs twice, no answered request is asked again, and every call has a result."""
    store = Copying()
    cleaner = cleaner_of(framework, wants("a"), wants("b", "c"))

    async def lives(on):
        async with opened(on) as supervisor:
            run = await supervisor.start(cleaner, "clean up", session="s")
            await approve_all(supervisor, run)
            return await run.outcome()

    assert (await lives(store)).value == "deleted a and deleted b and deleted c"
    assert len(store.left) > 10
    for left, done, asked in store.left:
        effects[:], requests[:] = done, asked
        called = sum(isinstance(row.event, e.ToolCallRequested) for row in left.journal("s"))
        assert (await lives(left)).kind == "succeeded"
        assert max(effects.count(path) for path in "abc") == 1, done
        again = [len(said.results) for said in requests[len(asked) :]]
        assert all(results >= min(called, 2) for results in again), "a request is asked again whose calls were made"
        assert dangling(left) == set()


@pytest.mark.parametrize(("package", "module", "extra"), PACKAGES)
def test_a_missing_package_is_named_with_its_extra(package, module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, package, None)
    for name in [each for each in sys.modules if f"{each}.".startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(ImportError, match=rf"\[{extra}\]"):
        importlib.import_module(module)


async def test_a_failed_request_is_begun_again_by_a_restart(framework):
    """R5: only the request; no call that has its result is made again."""

    async def script(said):
        requests.append(said)
        if len(requests) == 2:
            raise ConnectionError("the line is down")
        return " and ".join(said.results) if said.results else wants("a")

    tools = [framework.tool(delete)]
    async with opened() as supervisor:
        run = await supervisor.start(framework.agent("cleaner", script, tools, restart="transient"), "clean up")
        assert await run.result() == "deleted a"
    assert effects == ["a"]
    assert [len(said.results) for said in requests] == [0, 1, 1]


async def pydantic_sync() -> str:
    return str(PydanticAgent(TestModel()).run_sync("go").output)


async def openai_sync() -> str:
    return str(agents.Runner.run_sync(agents.Agent("Alone"), "go").final_output)


@agent
async def runs_in_itself(ctx: Context, name: str) -> str:
    return await {"pydantic": pydantic_sync, "openai": openai_sync}[name]()


@agent
async def runs_in_a_step(ctx: Context, name: str) -> str:
    return await ctx.step({"pydantic": pydantic_sync, "openai": openai_sync}[name])


@pytest.mark.filterwarnings("ignore:coroutine")
@pytest.mark.parametrize("name", ["pydantic", "openai"])
@pytest.mark.parametrize(("spec", "who"), [(runs_in_itself, "agent runs_in_itself"), (runs_in_a_step, "step ")])
async def test_run_sync_in_an_agent_is_an_error_with_its_cure(spec, who, name):
    """It names the agent or the step, and what to await instead."""
    async with opened() as supervisor:
        outcome = await (await supervisor.start(spec, name)).outcome()
    assert outcome.kind == "failed"
    assert who in outcome.cause
    assert "such as run, or" in outcome.cause


def test_tokens_that_a_framework_says_are_taken_and_others_are_unknown():
    """Cached tokens are a part of the input; and no bridge writes 0 for what it does not know."""
    details = InputTokensDetails.model_construct(cached_tokens=40)
    said = [
        _used(agents.Usage(requests=1, input_tokens=90, output_tokens=10, input_tokens_details=details), "m"),
        answered(
            ModelResponse(
                [], usage=RequestUsage(input_tokens=90, cache_read_tokens=40, output_tokens=10), model_name="m"
            )
        ),
        spoken(AIMessage("x", usage_metadata=TOKENS, response_metadata={"model_name": "m"})),
    ]
    assert said == [Usage("m", 1, 90, 40, 10)] * 3
    unsaid = [_used(agents.Usage(), "m"), answered(ModelResponse([], model_name="m")), spoken(AIMessage("x"))]
    assert [(each.requests, each.input_tokens, each.output_tokens) for each in unsaid] == [(1, None, None)] * 3


TOKENS = {"input_tokens": 90, "output_tokens": 10, "total_tokens": 100, "input_token_details": {"cache_read": 40}}


async def test_each_request_of_a_model_is_counted_and_a_budget_stops_the_next_one(framework):
    """The framework says what its requests took, over a death as well; a person is asked before one too many."""
    store = MemoryStore()
    spec = cleaner_of(framework, wants("a"), wants("b"))
    async with opened(store) as supervisor:
        run = await supervisor.start(spec, "clean up", session="s", budget=Budget(requests=2))
        async with run.watch_approvals() as approvals:
            await supervisor.decide((await anext(approvals)).id, Approve(by="ana"))
            await supervisor.decide((await anext(approvals)).id, Approve(by="ana"))
            question = await anext(approvals)
            assert question.tool == "supervisor.budget"
            assert len(requests) == 2
            assert effects == (["a"] if framework.name == "langgraph" else ["a", "b"])  # there it is part of a segment
            async with opened(fork(store)) as other:
                assert (await other.get_session("s")).usage.requests == 2
            await supervisor.decide(question.id, Approve(by="ana"))
        await run.result()
        assert (await supervisor.get_session("s")).usage.requests == len(requests) == 3
