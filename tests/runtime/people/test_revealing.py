"""Credentials in arguments: readers see masks, the effect gets the values, and an operator may look (A15)."""

import msgspec
import pytest
from scenes import events, opened

from supervisor import Approve, Context, InvalidInput, MemoryStore, NotEntitled, People, Person, agent, tool
from supervisor.cli.story import Story
from supervisor.core import events as e
from supervisor.core.documents import approval_document, event_document, session_document

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
