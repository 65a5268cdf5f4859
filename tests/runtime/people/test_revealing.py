"""Credentials in arguments: readers see masks, the effect gets the values, and an operator may look (A15)."""

import msgspec
import pytest
from scenes import events, opened
from watching import next_of

from supervisor import (
    Answer,
    Approve,
    Context,
    Deny,
    InvalidInput,
    MemoryStore,
    NotEntitled,
    People,
    Person,
    agent,
    ask,
    deny,
    tool,
)
from supervisor.cli.story import Story
from supervisor.core import events as e
from supervisor.core.documents import approval_document, event_document, rule_document, session_document

pytestmark = pytest.mark.anyio
TOKEN = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
PEOPLE = People([Person(name="olga", roles=("operator",)), Person(name="bob", roles=("approver",))])
got: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_has_run():
    got.clear()


@tool(command="command", secret=["key"])
async def run(command: str, key: str = "hunter2") -> str:
    got.append(command)
    return "ran"


@agent
async def caller(ctx: Context, command: str) -> str:
    return (await ctx.call(run, command.replace("TOKEN", TOKEN))).content


@tool(command="command")
async def plain(command: str) -> str:
    got.append(command)
    return "ran"


@agent
async def plain_caller(ctx: Context, command: str) -> str:
    return (await ctx.call(plain, command.replace("TOKEN", TOKEN))).content


@agent
async def asker(ctx: Context) -> str:
    return await ctx.ask(f"Is {TOKEN} the right token?")


@agent
async def chooser(ctx: Context) -> str:
    got.append(await ctx.ask("Which one?", choices=[f"the token {TOKEN}", "none"]))
    return got[0]


@agent
async def fails(ctx: Context, command: str) -> str:
    if (await ctx.call(plain, "ls")).is_error:
        raise RuntimeError(f"no connection to https://ana:{TOKEN}@db.example")
    return ""


async def asked(supervisor, agent=plain_caller, *given):
    run = await supervisor.start(agent, *given, session="s", by="olga" if supervisor.people else None)
    async with run.watch_approvals() as watch:
        return run, await anext(watch)


async def test_no_reader_finds_a_credential_and_the_effect_has_it():
    """Lists, sessions, the journal, the audit trail and stories have a mask, before and after the decision."""
    store = MemoryStore()
    async with opened(store) as supervisor:
        run, approval = await asked(supervisor, plain_caller, "curl -H 'Authorization: Bearer TOKEN' x")
        assert approval.arguments == {"command": "curl -H 'Authorization: Bearer [secret 1]' x"}
        assert approval.masked == ("command",)
        await supervisor.decide(approval.id, Approve(by="ana"))
        assert await run.result() == "ran"
        assert got == [f"curl -H 'Authorization: Bearer {TOKEN}' x"]
        story = Story()
        rows = [*await supervisor.find_audit(), *await supervisor.find_entries("s", limit=None)]
        seen = [
            *(approval_document(each) for each in await supervisor.find_approvals(pending=False)),
            *(session_document(each) for each in await supervisor.find_sessions()),
            *(event_document(row) for row in rows),
            *(story.tell(row, approval.created_at) for row in rows),
            *(message.text for message in await supervisor.get_transcript("s")),
        ]
        assert TOKEN not in msgspec.json.encode(seen).decode()
        assert TOKEN in str([event for event in events(store, "s") if isinstance(event, e.ToolCallRequested)])


async def test_an_edit_that_leaves_the_mask_runs_with_the_credential():
    """What else the person changed is changed."""
    async with opened() as supervisor:
        run, approval = await asked(supervisor, plain_caller, "deploy --token TOKEN live")
        edited = {"command": approval.arguments["command"].replace("live", "staging")}
        await supervisor.decide(approval.id, Approve(by="ana", arguments=edited))
        assert await run.result() == "ran"
        assert got == [f"deploy --token {TOKEN} staging"]
        assert (await supervisor.get_approval(approval.id)).arguments == edited


async def test_a_pattern_with_a_credential_is_not_offered():
    """A7: it would have to be shown before it is granted."""
    async with opened() as supervisor:
        _, approval = await asked(supervisor, plain_caller, "deploy --token TOKEN")
        assert [option.scope for option in approval.options] == ["once"]
        with pytest.raises(InvalidInput):
            await supervisor.decide(approval.id, Approve(by="ana", scope="session"))
        await supervisor.cancel("s")


async def test_an_operator_who_asks_sees_credentials_and_the_trail_says_so():
    """Declared secrets stay masked; nobody else may look, and that is noted, too."""
    async with opened(people=PEOPLE) as supervisor:
        _, approval = await asked(supervisor, caller, "deploy --token TOKEN")
        with pytest.raises(NotEntitled):
            await supervisor.reveal(approval.id, by="bob")
        shown = await supervisor.reveal(approval.id, by="olga", channel="command line")
        assert shown == {"command": f"deploy --token {TOKEN}", "key": "[secret]"}
        (looked,) = [row.event for row in await supervisor.find_audit() if isinstance(row.event, e.CredentialsShown)]
        assert (looked.approval, looked.by, looked.channel) == (approval.id, "olga", "command line")
        await supervisor.cancel("s", by="olga")


async def test_an_operator_sees_the_credential_with_which_an_edited_call_ran():
    """What ran is what people look at afterwards, not what was asked."""
    typed = TOKEN[:-1] + ("a" if TOKEN[-1] != "a" else "b")
    async with opened() as supervisor:
        run, approval = await asked(supervisor, plain_caller, "deploy --token TOKEN")
        await supervisor.decide(approval.id, Approve(by="ana", arguments={"command": f"deploy --token {typed}"}))
        await run.outcome()
        assert await supervisor.reveal(approval.id, by="ana") == {"command": f"deploy --token {typed}"}


async def test_a_credential_in_a_question_is_masked():
    """A question has no arguments that could be looked at."""
    async with opened() as supervisor:
        _, approval = await asked(supervisor, asker)
        assert approval.question == "Is [secret 1] the right token?"
        with pytest.raises(InvalidInput):
            await supervisor.reveal(approval.id, by="ana")
        await supervisor.cancel("s")


async def everything_listed(supervisor):
    """Return all that cards and lists show, as text; results are shown as they are."""
    approvals = [approval_document(each) for each in await supervisor.find_approvals(pending=False)]
    sessions = [session_document(each) for each in await supervisor.find_sessions()]
    rules = [rule_document(each) for each in await supervisor.find_rules()]
    results = (e.ToolCallFinished, e.OperationFinished, e.RunFinished)
    told = [each for each in await supervisor.find_audit() if not isinstance(each.event, results)]
    audit = [event_document(each) for each in told]
    for each in sessions:
        each["outcome"] = each["outcome"] and {**each["outcome"], "value": None}
    return str([approvals, sessions, rules, audit])


async def test_a_choice_with_a_credential_is_masked_and_the_agent_gets_the_choice():
    """The person chooses what is shown; so does a chat word that names it."""
    async with opened() as supervisor:
        run, approval = await asked(supervisor, chooser)
        assert approval.choices == ("the token [secret 1]", "none")
        await supervisor.decide(approval.id, Answer(value="the token [secret 1]", by="ana"))
        assert await run.result() == f"the token {TOKEN}"
        assert got == [f"the token {TOKEN}"]
        assert TOKEN not in await everything_listed(supervisor)


@pytest.mark.parametrize("rule", [ask("plain", f"curl {TOKEN}"), deny("plain", f"curl {TOKEN}")])
async def test_a_rule_with_a_credential_is_listed_with_a_mask_and_holds(rule):
    """Also where a card says that it asks."""
    async with opened() as supervisor:
        await supervisor.add_rule(rule, by="ana")
        run = await supervisor.start(plain_caller, "curl TOKEN")
        if rule.kind == "ask":
            asking = await next_of(run.watch_approvals())
            assert "[secret 1]" in asking.why
            await supervisor.decide(asking.id, Approve(by="ana"))
        await run.outcome()
        assert got == ([] if rule.kind == "deny" else [f"curl {TOKEN}"])
        assert TOKEN not in await everything_listed(supervisor)


async def test_the_reason_of_a_denial_and_of_a_failure_is_listed_with_a_mask():
    """What a person wrote, and what an exception says."""
    async with opened() as supervisor:
        run, approval = await asked(supervisor, fails, "x")
        denial = Deny(by="ana", reason=f"not with {TOKEN}", scope="session")
        await supervisor.decide(approval.id, denial)
        assert (await run.outcome()).kind == "failed"
        assert "not with [secret 1]" in (listed := await everything_listed(supervisor))
        assert "https://ana:[secret 1]@db.example" in listed
        assert TOKEN not in listed
