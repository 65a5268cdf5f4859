"""A permission request of an agent is a call of ours: asked, decided, answered."""

from datetime import UTC, datetime

import anyio
import pytest
from acp_scenes import allow, ask, asked, deny, events, new_home, opened, real_backend, say

from supervisor import Answer, Budget, Context, MemoryStore, agent, allow as allow_rule, deny as deny_rule
from supervisor.agents.acp.permissions import CLAIMS, DIFF, KINDS, OTHERS, TITLE
from supervisor.channels.wording.cards import make_card
from supervisor.core import events as e

__all__ = ["new_home", "real_backend"]
pytestmark = pytest.mark.anyio


async def test_an_approved_call_is_allowed_once_and_its_end_is_the_result(home):
    agent, store = home.agent([ask(), say("all done")]), MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(agent, "remove x")
        (approval,) = await asked(supervisor)
        assert (approval.tool, home.effects) == ("fake.execute", [])
        await allow(supervisor, approval)
        assert await run.result() == "all done"
    assert (home.prompts, home.outcomes, home.effects) == (["remove x"], ["yes"], ["c1"])
    assert [each.kind for each in events(store, run.session, e.ToolCallFinished)] == ["ok"]


async def test_a_denial_picks_the_rejecting_option_and_its_reason_is_the_next_prompt(home):
    agent = home.agent([ask()], [say("I keep x")], reject_ends=True)
    async with opened() as supervisor:
        run = await supervisor.start(agent, "remove x")
        (approval,) = await asked(supervisor)
        await deny(supervisor, approval, "x is dear to me")
        assert await run.result() == "I keep x"
    assert home.outcomes == ["no"]
    assert "x is dear to me" in home.prompts[1]


async def test_requests_are_independent(home):
    """Two requests wait at once, and are answered in reverse order."""
    both = [ask("c1", "rm x", wait=False), ask("c2", "rm y", wait=False), {"do": "await", "ids": ["c1", "c2"]}]
    async with opened() as supervisor:
        run = await supervisor.start(home.agent(both), "remove both")
        first, second = sorted(
            await asked(supervisor, 2), key=lambda each: str(each.arguments)
        )  # either may come first
        await deny(supervisor, second)
        while home.outcomes != ["no"]:
            await anyio.sleep(0.01)
        await allow(supervisor, first)
        await run.result()
    assert (home.outcomes, home.effects) == (["no", "yes"], ["c1"])


async def test_each_message_is_a_prompt_of_the_same_session(home):
    """The process ends with the run; the next one opens the session again."""
    agent = home.agent([say("one")], [say("two")])
    async with opened() as supervisor:
        run = await supervisor.start(agent, "first", session="talk")
        assert await run.result() == "one"
        await supervisor.send("talk", "second", by="ana")
        assert await (await supervisor.resume("talk")).result() == "two"
    assert home.prompts == ["first", "second"]
    assert len({each["params"]["sessionId"] for each in home.heard if each.get("method") == "session/prompt"}) == 1


def costs(usd):
    """Return a step that says what the session has cost so far."""
    cost = {"amount": usd, "currency": "USD"}
    return {"do": "update", "update": {"sessionUpdate": "usage_update", "used": 10, "size": 1000, "cost": cost}}


async def test_the_cost_of_a_turn_counts_once_and_a_budget_is_asked_before_the_next_one(home):
    """The agent says what its session has cost in all. A turn is one request at least."""
    agent = home.agent([costs(0.25), say("one")], [costs(0.75), say("two")])
    async with opened() as supervisor:
        run = await supervisor.start(agent, "first", session="talk", budget=Budget(usd=0.25))
        assert await run.result() == "one"
        await supervisor.send("talk", "second", by="ana")
        (question,) = await asked(supervisor)
        assert (question.tool, home.prompts) == ("supervisor.budget", ["first"])
        await allow(supervisor, question)
        assert await (await supervisor.get_run("talk")).result() == "two"
        spent = (await supervisor.get_session("talk")).usage
        assert (spent.usd, spent.requests) == (0.75, 2)


async def test_a_cost_that_is_less_than_before_is_that_of_another_session(home):
    """All of it counts: an agent that begins anew counts from nothing. A sum that was rounded otherwise is the same."""
    agent = home.agent(*([costs(usd), say("said")] for usd in (0.75, 0.74999, 0.25)))
    async with opened() as supervisor:
        await (await supervisor.start(agent, "go", session="talk")).result()
        for _ in range(2):
            await supervisor.send("talk", "on")
            await (await supervisor.get_run("talk")).result()
        assert (await supervisor.get_session("talk")).usage.usd == 1.0


async def test_a_budget_is_checked_before_each_permission_of_a_turn(home):
    """What the agent asks is journaled when the budget lets it."""
    agent = home.agent([ask("c1", "rm a"), ask("c2", "rm b"), say("done")])
    async with opened() as supervisor:
        run = await supervisor.start(agent, "go", session="talk", budget=Budget(calls=1))
        (first,) = await asked(supervisor)
        await allow(supervisor, first)
        (question,) = await asked(supervisor)
        assert (question.tool, home.effects) == ("supervisor.budget", ["c1"])
        await allow(supervisor, question)
        (second,) = await asked(supervisor)
        await allow(supervisor, second)
        assert await run.result() == "done"
    assert home.effects == ["c1", "c2"]


async def test_a_message_during_a_turn_waits(home):
    agent = home.agent([ask(), say("one")], [say("two")])
    async with opened() as supervisor:
        run = await supervisor.start(agent, "first", session="talk")
        (approval,) = await asked(supervisor)
        await supervisor.send("talk", "second", by="ana")
        await allow(supervisor, approval)
        await run.result()
        assert await (await supervisor.resume("talk")).result() == "two"
    assert home.prompts == ["first", "second"]


COMMAND_X = '{"command":"rm x"}'


async def _ruled(home, step, *rules):
    """Return what the rules say of a request. A call that asks ends at once, since nobody can answer it here."""
    store = MemoryStore()
    async with opened(store, rules=rules) as supervisor:
        run = await supervisor.start(home.agent([step, say("done")]), "go")
        assert await run.result() == "done"
    (result,) = events(store, run.session, e.ToolCallFinished)
    said = "deny" if result.content.startswith("denied by a rule") else {"denied": "ask"}.get(result.kind, result.kind)
    assert home.outcomes == ["yes" if said == "ok" else "no"]
    return said


@pytest.mark.parametrize(
    ("step", "rule", "answer"),
    [
        (ask(), allow_rule("fake.execute", COMMAND_X), "ok"),
        (ask(title="list files"), allow_rule("fake.execute", COMMAND_X), "ok"),
        (ask(input={"command": "git log -1", "description": "why"}), allow_rule("fake.execute", "git log *"), "ok"),
        (ask(input={"command": "git log -1", "elevated": True}), allow_rule("fake.execute", "git log *"), "ask"),
        (ask(kind="edit", input={"path": "/x", "description": "a"}), allow_rule("fake.edit", '{"path":"/x"}'), "ask"),
        (ask(command="rm y"), allow_rule("fake.execute", COMMAND_X), "ask"),
        (ask(kind="read"), allow_rule("fake.execute", COMMAND_X), "ask"),
        (ask(input=None), allow_rule("fake.execute"), "ask"),
        (ask(input={}), allow_rule("fake.execute"), "ask"),
    ],
    ids=[
        "exact",
        "other title",
        "described",
        "more input",
        "no command",
        "other input",
        "other kind",
        "no input",
        "empty input",
    ],
)
async def test_an_allow_rule_goes_by_the_raw_input(home, step, rule, answer):
    assert await _ruled(home, step, rule) == answer


@pytest.mark.parametrize("kind", ["execute", "read", "think", "other", "no kind of ours"])
@pytest.mark.parametrize("title", ["run rm x", None])
async def test_a_deny_rule_counts_whatever_the_agent_says_of_the_call(home, kind, title):
    rules = [deny_rule("fake.execute", "rm x"), *(allow_rule(f"fake.{each}", COMMAND_X) for each in KINDS)]
    assert await _ruled(home, ask(kind=kind, title=title), *rules) == "deny"


@pytest.mark.parametrize("claim", CLAIMS)
async def test_a_field_with_the_name_of_a_claim_hides_no_other_from_rules(home, claim):
    assert await _ruled(home, ask(input={"command": "rm x", claim: "ls"}), deny_rule("fake.read", "rm x")) == "deny"


async def test_a_card_shows_the_raw_input_and_marks_the_words_of_the_agent(home):
    change = {"type": "diff", "path": "/a.py", "oldText": "one\n", "newText": "two\n"}
    step = ask(title="tidy up", kind="edit", input={"path": "/a.py"}, content=[change])
    async with opened() as supervisor:
        run = await supervisor.start(home.agent([step]), "go")
        (approval,) = await asked(supervisor)
        await supervisor.cancel(run.session)
    card = make_card(approval, datetime.now(UTC))
    shown = {(fact.kind, fact.name): fact.text for fact in card.facts}
    assert (shown["argument", "path"], shown["claim", TITLE]) == ("/a.py", "tidy up")
    assert DIFF not in approval.arguments
    assert "-one" in shown["claim", DIFF]
    assert "+two" in shown["claim", DIFF]
    assert (approval.claims, approval.editable) == (CLAIMS, False)
    assert [option.pattern for option in approval.options[1:]] == ['{"path":"/a.py"}'] * 2


CODEX = {"command": ["/bin/bash", "-lc", "make"], "parsed_cmd": [{"cmd": "make"}], "available_decisions": ["approved"]}


@pytest.mark.parametrize(
    ("given", "patterns"),
    [
        ({"command": "git log -1", "description": "look back"}, ["git log -1", "git log *"]),
        (CODEX, ["/bin/bash -lc make"]),
    ],
)
async def test_a_rule_that_a_card_offers_holds_the_command_and_no_words_about_it(home, given, patterns):
    """A model describes the same command in other words each time, and Codex says what it makes of it."""
    async with opened() as supervisor:
        run = await supervisor.start(home.agent([ask(input=given)]), "go")
        (approval,) = await asked(supervisor)
        await supervisor.cancel(run.session)
    offered = [option.pattern for option in approval.options if option.scope == "always"]
    assert offered == [f"in {approval.cwd}: {pattern}" for pattern in patterns]


@pytest.mark.parametrize("is_child", [False, True], ids=["started", "spawned"])
async def test_the_folder_of_an_agent_is_the_one_on_cards_and_of_rules(home, is_child, monkeypatch):
    """An agent with a folder of its own works in it, relative to the folder in which it would be without it."""
    monkeypatch.chdir(home.folder)
    (home.folder / "project").mkdir()
    steps = [ask("c1", "git log -1"), ask("c2", "rm x"), say("done")]
    coder = home.agent(steps, budgets={"cwd": "project"})

    @agent
    async def chief(ctx: Context, message: str) -> str:
        return await ctx.run(coder, message)

    async with opened(rules=[allow_rule("fake.execute", "git log *")]) as supervisor:
        run = await supervisor.start(chief if is_child else coder, "go")
        (approval,) = await asked(supervisor)
        assert (approval.cwd, approval.arguments["command"]) == (str(home.folder / "project"), "rm x")
        assert f"in {home.folder}/project: rm x" in [option.pattern for option in approval.options]
        await allow(supervisor, approval)
        assert await run.result() == "done"
    assert [each["params"]["cwd"] for each in home.heard if each.get("method") == "session/new"] == [approval.cwd]


async def test_a_request_without_a_raw_input_can_be_allowed_once_only(home):
    async with opened() as supervisor:
        run = await supervisor.start(home.agent([ask(input=None)]), "go")
        (approval,) = await asked(supervisor)
        assert [option.scope for option in approval.options] == ["once"]
        await allow(supervisor, approval)
        await run.result()
    assert home.effects == ["c1"]


@pytest.mark.parametrize("odd", [5, True, "x", {"path": 5}, [5, None, "x", ["x"], {}, {"content": 5}]], ids=repr)
async def test_an_agent_may_say_of_a_call_what_the_protocol_does_not_know(home, odd):
    words = {"toolCallId": "c1", "title": "tidy up", "content": odd, "locations": odd}
    told = {"do": "update", "update": {"sessionUpdate": "tool_call", **words}}
    ended = {"do": "update", "update": {"sessionUpdate": "tool_call_update", "toolCallId": "c2", "content": odd}}
    ended["update"]["status"] = "completed"
    async with opened() as supervisor:
        run = await supervisor.start(home.agent([told, ended, ask(title=None, input=None), say("done")]), "go")
        (approval,) = await asked(supervisor)
        assert approval.arguments[TITLE] == "tidy up"
        assert OTHERS in approval.arguments
        assert {*approval.arguments} <= {*approval.claims}
        await allow(supervisor, approval)
        assert await run.result() == "done"
    assert home.effects == ["c1"]


async def test_options_that_do_not_fit_become_a_question_with_their_names(home):
    options = [{"optionId": each, "name": "AUTO", "kind": "allow_once"} for each in ("auto", "manual")]
    step = ask(options=[*options, {"optionId": "plan", "name": "", "kind": "reject_once"}])
    async with opened() as supervisor:
        run = await supervisor.start(home.agent([step, say("done")]), "go")
        (question,) = await asked(supervisor)
        assert question.choices == ("AUTO", "AUTO (2)", "option 3")
        await supervisor.decide(question.id, Answer(value="AUTO (2)", by="ana"))
        assert await run.result() == "done"
    assert (home.outcomes, home.effects) == (["manual"], ["c1"])


async def test_a_declined_question_is_a_rejection_and_its_reason_the_next_prompt(home):
    options = [{"optionId": each, "name": each, "kind": each} for each in ("allow_always", "reject_always")]
    async with opened() as supervisor:
        run = await supervisor.start(home.agent([ask(options=options)], [say("I see")]), "go")
        (question,) = await asked(supervisor)
        await deny(supervisor, question, "ask me tomorrow")
        assert await run.result() == "I see"
    assert (home.outcomes, home.effects) == (["reject_always"], [])
    assert "ask me tomorrow" in home.prompts[1]


async def test_a_question_does_not_get_round_a_deny_rule(home):
    options = [{"optionId": each, "name": each, "kind": each} for each in ("allow_always", "reject_once")]
    async with opened(rules=[deny_rule("fake.execute", "rm x")]) as supervisor:
        run = await supervisor.start(home.agent([ask(options=options), say("done")]), "go")
        (question,) = await asked(supervisor)
        await supervisor.decide(question.id, Answer(value="allow_always", by="ana"))
        await run.result()
    assert (home.outcomes, home.effects) == (["reject_once"], [])
