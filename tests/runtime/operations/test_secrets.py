"""Values of parameters that a tool declares secret: only the effect gets them, and they are shown nowhere."""

import logging
from datetime import UTC, datetime
from typing import Literal

import anyio
import msgspec
import pytest
import structlog
from scenes import events, opened
from watching import next_of

from supervisor import (
    Approve,
    ApproverRule,
    Context,
    InvalidInput,
    MemoryStore,
    NotEntitled,
    People,
    Person,
    ToolCall,
    agent,
    allow,
    ask,
    deny,
    tool,
)
from supervisor.channels import Channel, Terminal
from supervisor.channels.wording.cards import card_lines, make_card
from supervisor.cli import make_app
from supervisor.cli.story import Story
from supervisor.core import events as e
from supervisor.core.documents import approval_document, event_document, session_document
from supervisor.core.text.masks import MASK

pytestmark = pytest.mark.anyio
PLANTED = "hunter2"
got: list[tuple[object, ...]] = []


@pytest.fixture(autouse=True)
def _nothing_has_run():
    got.clear()


@tool(secret=["token", "settings"])
async def login(user: str, token: str | None, settings: dict[str, list[str]] | None = None) -> str:
    got.append((user, token, settings))
    return f"welcome {user}"


@agent(tools=[login])
async def visitor(ctx: Context, text: str) -> str:
    if ctx.transcript():
        return "; ".join(message.text for message in ctx.transcript())
    return (await ctx.call(login, "ana", token=PLANTED, settings={"keys": [PLANTED]})).content


@pytest.fixture(params=["structlog", "logging"])
def logged(request):
    """Collect all log output, from structlog if the program has configured it, else from the standard library."""
    lines: list[object] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger, level = logging.getLogger("supervisor"), logging.getLogger("supervisor").level
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    if request.param == "structlog":
        structlog.configure(processors=[lambda _logger, _name, event: lines.append(event) or repr(event)])
    yield lines
    structlog.reset_defaults()
    logger.setLevel(level)
    logger.removeHandler(handler)


class Broken(Channel):
    """A channel whose error contains the approval that it could not show."""

    name = "broken"

    async def serve(self, supervisor) -> None:
        await anyio.sleep_forever()

    async def post(self, approval, card) -> str:
        raise ConnectionError(f"cannot post {approval}")

    async def retire(self, approval, card) -> None:
        """There is none."""


async def test_a_secret_is_on_no_surface_and_reaches_the_effect(logged, capfd):
    """Approvals, cards, sessions, journals, pages, activity, transcripts and logs have the mask, before and after."""
    seen: list[object] = []

    async def look(supervisor) -> None:
        now = datetime.now(UTC)
        for approval in await supervisor.find_approvals(pending=False):
            seen.extend(
                [
                    approval_document(approval),
                    card_lines(make_card(approval, now), {}),
                    await supervisor.get_approval(approval.id),
                ]
            )
        for view in await supervisor.find_sessions():
            seen.extend([session_document(view), await supervisor.get_transcript(view.id)])
        for row in [*await supervisor.find_entries("s"), *await supervisor.find_audit()]:
            seen.extend([event_document(row), Story().tell(row, now), row])
        seen.append([msgspec.to_builtins(each) for each in await activities.look(wholly=True)])

    async with (
        opened(channels=[Broken(), Terminal(by="ana")]) as supervisor,
        supervisor.watch_activity() as activities,
    ):
        run = await supervisor.start(visitor, "go", session="s")
        approval = await next_of(run.watch_approvals())
        assert approval.arguments == {"user": "ana", "token": MASK, "settings": MASK}
        assert approval.secret == ("token", "settings")
        seen.extend([option.pattern for option in approval.options])
        async with supervisor.watch_session("s") as watch:
            async for row in watch:
                if isinstance(row.event, e.CardFailed):
                    break
        await anyio.sleep(1)  # the terminal says it as lines
        await look(supervisor)
        edited = {"user": "eve", "token": MASK, "settings": {"keys": [f"other {PLANTED}"]}}
        seen.append(card_lines(make_card(approval, datetime.now(UTC), edited=edited), {}))
        await supervisor.decide(approval.id, Approve(by="ana", arguments=edited))
        assert await run.result() == "welcome eve"
        await look(supervisor)
        async with supervisor.watch_session("s") as watch:
            seen.extend([event_document(row) async for row in watch])
        await supervisor.send("s", "what was said?", by="ana")
        outcome = await (await supervisor.get_run("s")).outcome()
        assert MASK in outcome.value
        seen.append(outcome)
    assert got == [("eve", PLANTED, {"keys": [f"other {PLANTED}"]})]
    assert len(seen) > 40
    assert "card.failed" in str(logged)
    assert [line for line in [*seen, *logged, *capfd.readouterr()] if PLANTED in str(line)] == []


def test_a_secret_is_on_no_surface_of_the_command_line(tmp_path, capsys):
    """The store's file holds it. The output of commands masks it, for people and for programs."""
    path = str(tmp_path / "state.db")

    async def leave_it_pending() -> None:
        async with opened(path) as supervisor:
            await next_of((await supervisor.start(visitor, "go", session="s")).watch_approvals())

    anyio.run(leave_it_pending)
    commands = [["approvals"], ["approvals", "--all"], ["sessions"], ["show", "s"], ["audit"]]
    for command in [["export", "s"], *(each for shown in commands for each in (shown, [*shown, "--json"]))]:
        make_app()([*command, "--store", path], result_action="return_value")
    printed = capsys.readouterr()
    assert printed.out.count(MASK) > 8
    assert PLANTED not in printed.out + printed.err


@pytest.mark.parametrize("value", [MASK, "new", None])
async def test_an_edit_keeps_masked_values_and_replaces_the_rest(value):
    """A8: the mask stands for the secret value. A3: the same edit again is `already`; one that names a secret learns
    nothing."""
    async with opened() as supervisor:
        run = await supervisor.start(visitor, "go")
        approval = await next_of(run.watch_approvals())
        edited = {"user": "eve", "token": value, "settings": MASK}
        await supervisor.decide(approval.id, Approve(by="ana", arguments=edited))
        assert await run.result() == "welcome eve"
        again = [
            (await supervisor.decide(approval.id, Approve(by="ben", arguments={**edited, "token": token}))).kind
            for token in (value, "another", PLANTED, MASK)
        ]
        now = await supervisor.get_approval(approval.id)
    assert got == [("eve", PLANTED if value == MASK else value, {"keys": [PLANTED]})]
    kept = "already" if value == MASK else "conflict"
    assert again == [kept, "conflict", "conflict", kept]
    assert now.arguments == {"user": "eve", "token": value and MASK, "settings": MASK}


@pytest.mark.parametrize(
    ("rule", "asks"),
    [
        (allow(login), False),
        (allow(login, '{"settings":null,"token":"hunter2","user":"ana"}'), True),
        (allow(login, '{"settings":null,"token":"[secret]","user":"ana"}'), True),
        (deny(login, '{"token":"hunter2"}'), True),
        (ask(login, '{"token":"another"}'), True),
    ],
)
async def test_a_pattern_on_a_secret_argument_asks(rule, asks):
    """A5: the value can be neither shown nor trusted, so no such allow matches, and a deny becomes an ask."""

    @agent(rules=[rule])
    async def caller(ctx: Context) -> str:
        return (await ctx.call(login, "ana", PLANTED)).kind

    async with opened(unattended="allow") as supervisor:
        assert await (await supervisor.start(caller)).result() == "ok"
        found = await supervisor.find_approvals(pending=False)
    assert bool(found) is asks
    assert [[option.scope for option in approval.options] for approval in found] == [["once"]] * asks


async def test_a_deny_on_another_argument_still_denies():
    """A7: a secret argument next to it does not weaken it."""

    @agent(rules=[deny(login, '{"user":"ana"}')])
    async def caller(ctx: Context) -> str:
        return (await ctx.call(login, "ana", PLANTED)).kind

    async with opened() as supervisor:
        assert await (await supervisor.start(caller)).result() == "denied"


@pytest.mark.parametrize(("pattern", "kind"), [('{"token":"x"}', "refused"), ('{"user":"eve"}', "accepted")])
async def test_an_approver_rule_on_a_secret_argument_holds(pattern, kind):
    """A4, A5: whether its pattern matches cannot be known later, so only the approvers that it names may decide."""
    persons = [Person(name=name, roles=("approver",), tokens=()) for name in ("ana", "cleo")]
    people = People(persons, [ApproverRule(approvers=("cleo",), rule=ask(login, pattern))])
    async with opened(people=people) as supervisor:
        run = await supervisor.start(visitor, "go")
        approval = await next_of(run.watch_approvals())
        try:
            found = (await supervisor.decide(approval.id, Approve(by="ana"))).kind
        except NotEntitled:
            found = "refused"
    assert found == kind


@tool(policy="allow", secret=["key"])
async def unlock(door: int, key: Literal["right", "wrong"]) -> None:
    got.append((door, key))


@pytest.mark.parametrize(
    "arguments",
    [
        {"door": 1, "key": PLANTED},
        {"door": 1, "keys": PLANTED},
        {"door": 1, "key": {PLANTED: PLANTED}},
        f'{{"door": 1, "key": "{PLANTED}',
        f'"{PLANTED}"',
        {"door": 1, "key": {PLANTED}},
    ],
)
@pytest.mark.parametrize("name", ["unlock", "unlok"])
async def test_no_error_quotes_a_secret(name, arguments, logged):
    """Neither does the result that a model reads of its own mistake, nor the journal that others read."""

    @agent(tools=[unlock])
    async def caller(ctx: Context) -> str:
        return (await ctx.call(ToolCall("1", name, arguments))).content

    async with opened() as supervisor:
        run = await supervisor.start(caller, session="s")
        seen = [await run.result(), *map(event_document, await supervisor.find_entries("s")), *logged]
    assert [line for line in seen if PLANTED in str(line)] == []
    assert got == []


async def test_no_exception_in_the_agent_quotes_a_secret():
    """A wrong argument raises, and the exception becomes the outcome, which all readers see."""

    @agent
    async def caller(ctx: Context) -> None:
        await ctx.call(unlock, 1, PLANTED)  # type: ignore[arg-type]

    async with opened() as supervisor:
        outcome = await (await supervisor.start(caller)).outcome()
    assert (outcome.kind, "key" in outcome.cause, PLANTED in outcome.cause) == ("failed", True, False)


async def test_edited_arguments_that_do_not_fit_are_not_quoted():
    """A8: the process that runs the call checks types. The error names the argument, and no more."""

    @tool(secret=["key"])
    async def asked(key: Literal["right", "wrong"]) -> None: ...

    @agent
    async def caller(ctx: Context) -> str:
        return (await ctx.call(asked, "right")).content

    async with opened() as supervisor:
        run = await supervisor.start(caller)
        approval = await next_of(run.watch_approvals())
        with pytest.raises(InvalidInput) as refused:
            await supervisor.decide(approval.id, Approve(by="ana", arguments={"key": PLANTED}))
        said = str(refused.value)
    assert ("key" in said, PLANTED in said) == (True, False)


async def test_neither_an_operation_nor_a_digest_gives_a_secret_away():
    """A short secret could be guessed from its digest, so both are made from the masked arguments."""

    @agent
    async def caller(ctx: Context, token: str) -> None:
        await ctx.call(unlock, 1, token)  # type: ignore[arg-type]

    asked = []
    for token in ("right", "wrong"):
        store = MemoryStore()
        async with opened(store) as supervisor:
            await (await supervisor.start(caller, token, session="s")).outcome()
            asked += [(each.operation, each.digest) for each in events(store, "s", e.ToolCallRequested)]
    assert asked[0] == asked[1]
    assert got == [(1, "right"), (1, "wrong")]


def test_an_event_is_named_in_errors_without_its_content():
    """Texts of agents, tools and people are raw JSON, which the journal holds and a log never shows."""
    event = e.ToolCallRequested(
        at=datetime.now(UTC), operation="o", tool="t", arguments=msgspec.Raw(f'"{PLANTED}"'.encode()), digest="d"
    )
    assert ("operation='o'" in repr(event), PLANTED in repr(event)) == (True, False)


def test_a_secret_name_must_be_a_parameter():
    """A misspelt name would show the value."""
    with pytest.raises(ValueError, match="tokn"):
        tool(secret=["tokn"])(login.fn)
    with pytest.raises(TypeError):
        tool(secret="token")(login.fn)
    with pytest.raises(InvalidInput):
        allow(login, "token=*")
