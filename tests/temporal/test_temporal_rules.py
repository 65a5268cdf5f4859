"""Rules for all sessions of a namespace, and races of decisions with withdrawals: in processes of this one."""

from contextlib import suppress
from datetime import UTC, datetime

import anyio
import pytest
from temporal_server import namespace, working
from temporalio.service import RPCError, RPCStatusCode
from temporalio.testing import ActivityEnvironment

from supervisor import (
    Answer,
    Approve,
    Context,
    Deny,
    InvalidInput,
    LimitExceeded,
    QuestionUnanswered,
    ServerUnavailable,
    agent,
    allow,
    deny,
    tool,
)
from supervisor.runtime.operations import calls
from supervisor.temporal import open_temporal, rules
from supervisor.temporal.client import commands, decisions
from supervisor.temporal.mirror.mirror import Mirror
from supervisor.temporal.rulebook import RuleChange
from supervisor.temporal.rules import NamespaceRules
from supervisor.temporal.wire import RULES_ID, to_wire
from supervisor.temporal.worker.namespace import NamespaceActivities
from supervisor.temporal.workflow import rules as rules_workflow
from supervisor.testing import replaced

ENDS = [("accepted", "approved"), ("closed", "withdrawn"), ("recorded", "approved"), ("recorded", "withdrawn")]
"""Of a decision: its result, and what became of the approval. On a slow machine, what is recorded may go either way."""
ANSWERED = [("accepted", "answered"), ("closed", "expired"), ("recorded", "answered"), ("recorded", "expired")]
pytestmark = pytest.mark.anyio


happened: list[str] = []
"""Reads of the rules, and calls."""


@tool
async def press(button: str) -> str:
    happened.append("pressed")
    return button


@tool(path="file")
async def change(file: str) -> str:
    happened.append(file)
    return "changed"


@agent
async def changing(ctx: Context, file: str) -> list[str]:
    result = await ctx.call(change, file)
    return [result.kind, result.content]


@agent
async def pressing(ctx: Context, button: str) -> list[str]:
    result = await ctx.call(press, button)
    return [result.kind, result.content]


@agent
async def asking(ctx: Context, number: int) -> None:
    async with ctx.task_group() as tasks:
        for each in range(number):
            tasks.start_soon(one, str(each))


async def one(ctx: Context, button: str) -> None:
    await ctx.call(press, button)


@pytest.fixture(autouse=True)
async def bounded():
    happened.clear()
    with anyio.fail_after(120):
        yield


async def test_a_rule_for_all_sessions_holds_for_calls_that_begin_after_it():
    """An allow runs a call without a person; a deny holds for one that was asked before, and is approved after it."""
    url = await namespace()
    async with working(url, [pressing]), open_temporal(url) as supervisor:
        added = await supervisor.add_rule(allow("press", '{"button": "red"}'), by="ana")
        assert (await supervisor.add_rule(allow("press", '{"button": "red"}'), by="bob")).id == added.id
        assert await (await supervisor.start(pressing, "red")).result() == ["ok", "red"]
        run = await supervisor.start(pressing, "blue")
        async with run.watch_approvals() as asked:
            waiting = await anext(asked)
        denied = await supervisor.add_rule(deny("press"), by="ana")
        await supervisor.decide(waiting.id, Approve(by="ana"))
        kind, content = await run.result()
        assert (kind, denied.id in content) == ("denied", True)
        assert [each.id for each in await supervisor.find_rules()] == [added.id, denied.id]
        await supervisor.revoke_rule(denied.id, by="bob")
        assert await (await supervisor.start(pressing, "red")).result() == ["ok", "red"]


async def test_a_rule_counts_when_the_server_has_it():
    """No worker lives when it is added: the first call of the next one obeys it."""
    url = await namespace()
    async with working(url, [pressing]):
        pass  # it has made the search attributes
    async with open_temporal(url) as supervisor:
        await supervisor.add_rule(deny("press"), by="ana")
        run = await supervisor.start("pressing", "red")
        async with working(url, [pressing]):
            assert (await run.result())[0] == "denied"


async def test_a_path_is_settled_by_the_worker(tmp_path):
    """Before the call asks, so that an allow of a folder allows, and a deny sees where a link leads."""
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    (tmp_path / "here" / "link").symlink_to(tmp_path / "there")
    url = await namespace()
    async with working(url, [changing]), open_temporal(url) as supervisor:
        await supervisor.add_rule(allow(change, f"{tmp_path}/here/**"), by="ana")
        denied = await supervisor.add_rule(deny(change, f"{tmp_path}/there/**"), by="ana")
        assert await (await supervisor.start(changing, f"{tmp_path}/here/new")).result() == ["ok", "changed"]
        kind, content = await (await supervisor.start(changing, f"{tmp_path}/here/link/new")).result()
        assert (kind, denied.id in content) == ("denied", True)
        assert happened == [f"{tmp_path}/here/new"]


async def test_a_path_is_settled_again_where_the_body_runs(tmp_path):
    """A link was made while the call waited for a person: the body does not begin where a rule denies it."""
    for name in ("here/plain", "there"):
        (tmp_path / name).mkdir(parents=True)
    url = await namespace()
    async with working(url, [changing]), open_temporal(url) as supervisor:
        await supervisor.add_rule(deny(change, f"{tmp_path}/there/**"), by="ana")
        run = await supervisor.start(changing, f"{tmp_path}/here/plain/new")
        async with run.watch_approvals() as asked:
            waiting = await anext(asked)
        (tmp_path / "here" / "plain").rmdir()
        (tmp_path / "here" / "plain").symlink_to(tmp_path / "there")
        await supervisor.decide(waiting.id, Approve(by="ana"))
        assert (await run.result())[0] == "denied"
        assert happened == []


@pytest.mark.parametrize("decision", [Approve(by="ana", scope="always"), Deny(by="ana", scope="always")])
async def test_a_decision_for_always_releases_equal_calls_of_other_trees(decision):
    """Their workflows are told of it. Another call waits on."""
    url = await namespace()
    async with working(url, [pressing]), open_temporal(url) as supervisor:
        runs = [await supervisor.start(pressing, button, session=f"{button}-{n}") for n, button in enumerate("rrbr")]
        waiting = {}
        for run in runs:
            async with run.watch_approvals() as asked:
                waiting[run.session] = await anext(asked)
        await anyio.sleep(2)  # the server lists what waits a moment later
        await supervisor.decide(waiting["r-0"].id, decision)
        kind = "ok" if isinstance(decision, Approve) else "denied"
        assert [(await runs[at].result())[0] for at in (0, 1, 3)] == [kind] * 3
        now = await supervisor.get_approval(waiting["r-3"].id)
        assert (now.by, now.through) == ("ana", waiting["r-0"].id)
        assert [each.session for each in await supervisor.find_approvals()] == ["b-2"]


async def test_rules_outlive_the_workflow_that_keeps_them(enter):
    """It goes on in a new one after some changes. If a person terminates it, a deny holds for the next call, and the
    next change is one more."""
    enter(replaced(rules_workflow, "MOST", 3))
    url = await namespace()
    async with working(url, [pressing]), open_temporal(url) as supervisor:
        keeper = supervisor.trees.client.get_workflow_handle(RULES_ID)
        added = [await supervisor.add_rule(deny("press", f'{{"button": "{n}"}}'), by="ana") for n in range(3)]
        begun = (await keeper.describe()).raw_description.workflow_execution_info.first_run_id
        while (await keeper.describe()).run_id == begun:
            await anyio.sleep(0.05)
        await supervisor.revoke_rule(added.pop(0).id, by="bob")
        for change in (supervisor.add_rule(deny("press"), by="ana"), supervisor.revoke_rule(added.pop(0).id, by="ana")):
            await keeper.terminate()
            assert (await (await supervisor.start(pressing, "2")).result())[0] == "denied"
            await keeper.terminate()
            await change
        assert len(await supervisor.find_rules()) == 2
        assert added[0].id in [each.id for each in await supervisor.find_rules()]


async def test_rules_that_are_too_large_are_refused(enter):
    """Together they are read before each call. None of those that hold is lost."""
    enter(replaced(rules, "LARGEST_BYTES", 2500))
    url = await namespace()
    async with working(url, [pressing]), open_temporal(url) as supervisor:
        for each in "ab":
            await supervisor.add_rule(deny("press", each * 1000), by="ana")
        with pytest.raises(LimitExceeded, match="revoke"):
            await supervisor.add_rule(deny("press", "c" * 1000), by="ana")
        assert len(await supervisor.find_rules()) == 2


@pytest.mark.parametrize("good", [1, 2])
async def test_no_call_begins_while_the_rules_cannot_be_read(enter, good):
    """Before it is asked for, and after the approval, just before its effect. It begins when they can be read."""
    usual = NamespaceRules.read
    happened.clear()

    async def read(self: NamespaceRules) -> None:
        happened.append("unread" if good <= len(happened) < good + 2 else "read")
        if happened[-1] == "unread":
            raise RPCError("no", RPCStatusCode.UNAVAILABLE, b"")
        await usual(self)

    enter(replaced(calls, "ASKED_WITHIN_SECONDS", 0.0))
    enter(replaced(NamespaceRules, "read", read))
    url = await namespace()
    async with working(url, [pressing]), open_temporal(url) as supervisor:
        run = await supervisor.start(pressing, "red")
        while not (asked := await supervisor.find_approvals()):
            await anyio.sleep(0.05)
        await supervisor.decide(asked[0].id, Approve(by="ana"))
        assert (await run.result())[0] == "ok"
    assert happened == [*(["read"] * good), "unread", "unread", "read", *(["read"] * (2 - good)), "pressed"]


@agent
async def pressing_twice(ctx: Context) -> list[str]:
    return [(await ctx.call(press, "red")).kind for _ in range(2)]


@agent
async def pressing_on(ctx: Context, pause: float) -> list[str]:
    kinds = [(await ctx.call(press, "red")).kind for _ in range(2)]
    await ctx.sleep(pause)
    return [*kinds, (await ctx.call(press, "red")).kind]


@pytest.mark.parametrize("scope", ["session", "always"])
async def test_an_allowance_ends_at_its_instant_and_none_is_counted(scope):
    """A19: `uses` are refused, with a sentence, and none is offered. After the end the same call asks."""
    url = await namespace()
    async with working(url, [pressing_on]), open_temporal(url) as supervisor:
        run = await supervisor.start(pressing_on, 6.0)
        async with run.watch_approvals() as asked:
            waiting = await anext(asked)
            assert [(each.uses, each.minutes) for each in waiting.allowances] == [(None, 15)]
            with pytest.raises(InvalidInput, match="no calls are counted"):
                await supervisor.decide(waiting.id, Approve(by="ana", scope=scope, uses=2))
            with pytest.raises(InvalidInput, match="no calls are counted"):
                await supervisor.add_rule(allow("press", '{"button": "red"}', uses=2), by="ana")
            await supervisor.decide(waiting.id, Approve(by="ana", scope=scope, minutes=0.1))
            await anext(asked)
            assert happened.count("pressed") == 2
            (rule,) = await supervisor.find_rules()
            assert (rule.ended, rule.uses, rule.session) == (True, None, run.session if scope == "session" else None)


async def test_a_decision_for_always_makes_a_rule_before_the_next_call():
    """Made while no worker lives, it counts, and its rule is there for the next call of the same session, and for other
    sessions. A second decision on the same call makes none, and a revoked rule stays revoked."""
    url = await namespace()
    async with working(url, [pressing_twice]), open_temporal(url) as supervisor:
        run = await supervisor.start(pressing_twice)
        async with run.watch_approvals() as asked:
            waiting = await anext(asked)
    async with open_temporal(url) as supervisor:
        assert "always" in {option.scope for option in waiting.options}
        assert (await supervisor.decide(waiting.id, Approve(by="ana", scope="always"))).kind == "recorded"
        assert list(await supervisor._rules.find()) == []
        async with working(url, [pressing_twice]):
            run = await supervisor.get_run(run.session)
            assert await run.result() == ["ok", "ok"]
            assert await (await supervisor.start(pressing_twice)).result() == ["ok", "ok"]
            (rule,) = await supervisor.find_rules()
            assert (rule.kind, rule.session, rule.by) == ("allow", None, "ana")
            again = await supervisor.decide(waiting.id, Approve(by="bob", scope="always"))
            assert (again.kind, again.rule) == ("already", rule.id)
            await supervisor.revoke_rule(rule.id, by="bob")
            activities = NamespaceActivities(supervisor.trees.client, supervisor.trees.named)
            change = RuleChange(by="ana", at=datetime.now(UTC), rule=rule)
            await ActivityEnvironment().run(activities.add_rule, to_wire(change))
            assert list(await supervisor.find_rules()) == []


async def test_a_decision_and_a_withdrawal_claim_the_same_approval():
    """Each of twenty approvals is decided or withdrawn, never both; later ones are closed, without a worker too."""
    url = await namespace()
    async with open_temporal(url) as supervisor:
        async with working(url, [asking]):
            run = await supervisor.start(asking, 20)
            waiting = list(await until_asked(supervisor, 20))
            results = {}

            async def decide(approval: str) -> None:
                results[approval] = await supervisor.decide(approval, Approve(by="ana"))

            async with anyio.create_task_group() as tasks:
                for number, each in enumerate(waiting):
                    if number == 10:
                        tasks.start_soon(supervisor.cancel, run.session)
                    tasks.start_soon(decide, each.id)
            await run.outcome()
            ended = {each.id: each.status for each in await supervisor.find_approvals(pending=False, limit=None)}
            for approval, result in results.items():
                assert (result.kind, ended[approval]) in ENDS
        for approval, status in ended.items():
            if status == "withdrawn":
                late = await supervisor.decide(approval, Approve(by="bob"))
                assert (late.kind, late.status) == ("closed", "withdrawn")


@agent
async def expiring(ctx: Context, number: int) -> list[str]:
    """Asks questions that expire one after another, and returns the answers."""
    said = [""] * number

    async def question(own: Context, each: int) -> None:
        with suppress(QuestionUnanswered):
            said[each] = await own.ask(f"{each}?", expires_in=1 + each / 5)

    async with ctx.task_group() as tasks:
        for each in range(number):
            tasks.start_soon(question, each)
    return said


async def test_an_answer_and_an_expiry_claim_the_same_question():
    """Each of ten questions is answered or expires, never both, and its answerer learns which."""
    url = await namespace()
    async with working(url, [expiring]), open_temporal(url) as supervisor:
        run = await supervisor.start(expiring, 10)
        results = {}

        async def answer(each, early: float) -> None:
            await anyio.sleep((each.expires_at - datetime.now(UTC)).total_seconds() - early)
            results[each.id] = await supervisor.decide(each.id, Answer(value=each.id, by="ana"))

        async with anyio.create_task_group() as tasks:
            for number, each in enumerate(await until_asked(supervisor, 10)):
                tasks.start_soon(answer, each, 0.3 - number / 20)
        said = await run.result()
        ended = await supervisor.find_approvals(pending=False, limit=None)
        assert sorted(filter(None, said)) == sorted(each.id for each in ended if each.status == "answered")
        for each in ended:
            assert (results[each.id].kind, each.status) in ANSWERED
            late = await supervisor.decide(each.id, Answer(value="no", by="bob"))
            assert late.kind == ("closed" if each.status == "expired" else "conflict")


async def test_a_decision_that_came_too_late_stays_so_without_a_worker(enter):
    """It claims the approval after a cancel is on its way, and no worker lives: the withdrawal is what counts. The rule
    that it would have made is not made."""

    async def unread(*_) -> None:
        raise ServerUnavailable("no worker answers", maybe_done=False)

    enter(replaced(commands, "SOON_ENOUGH", 0.1))
    enter(replaced(decisions, "SOON_ENOUGH", 0.1))
    url = await namespace()
    async with open_temporal(url) as supervisor:
        async with working(url, [asking]):
            run = await supervisor.start(asking, 1)
            (waiting,) = await until_asked(supervisor, 1)
        await supervisor.cancel(run.session)
        assert (await supervisor.decide(waiting.id, Approve(by="ana", scope="always"))).kind == "recorded"
        async with working(url, [asking]):
            await run.outcome()
            (ended,) = await supervisor.find_approvals(pending=False)
            assert ended.status == "withdrawn"
            assert list(await supervisor.find_rules()) == []
        enter(replaced(Mirror, "read", unread))
        late = await supervisor.decide(waiting.id, Approve(by="bob"))
        assert (late.kind, late.status) == ("closed", "withdrawn")


async def until_asked(supervisor, count: int):
    while len(found := await supervisor.find_approvals(limit=None)) < count:
        await anyio.sleep(0.05)
    return found
