"""A12: a person's text to a session decides, is answered by a list, or is sent."""

from datetime import UTC, datetime, timedelta

import anyio
import pytest
from scenes import Wall, deploy, effects, events, opened
from watching import next_of

from supervisor import Answer, Approve, Context, InvalidInput, MemoryStore, NotEntitled, agent, tool
from supervisor.channels.wording.cards import heard_lines
from supervisor.core import events as e
from supervisor.core.approvals.people import ApproverRule, People, Person
from supervisor.core.ids import short_ids

pytestmark = pytest.mark.anyio
EVER = datetime.max.replace(tzinfo=UTC)
OLGA = Person(name="olga", roles=("operator",))


@agent
async def deploys(ctx: Context, targets: list[str]) -> list[str]:
    """Make calls in parallel, and then one more."""
    kinds: dict[str, str] = {}

    async def call(inner: Context, target: str) -> None:
        kinds[target] = (await inner.call(deploy, target)).kind

    async with ctx.task_group() as group:
        for target in targets:
            group.start_soon(call, target)
    return [kinds[target] for target in targets]


@agent
async def again(ctx: Context) -> list[str]:
    return [(await ctx.call(deploy, "a")).kind for _ in range(2)]


@tool
async def restart() -> str:
    return "restarted"


@agent
async def has_no_arguments(ctx: Context) -> str:
    return (await ctx.call(restart)).kind


@agent
async def twice(ctx: Context) -> list[str]:
    first = await ctx.run(deploys, ["a", "b"])
    return first + await ctx.run(deploys, ["c"])


@agent
async def asks(ctx: Context, text: str) -> str:
    return str(await ctx.ask("Really?", schema=bool)) + await ctx.ask("Why?") + await ctx.receive()


class Strip(Wall):
    """Has no room for a whole card."""

    def shows(self, approval):
        return [fact for fact in super().shows(approval) if fact.kind != "argument"]


async def shown(supervisor, session: str, count: int):
    """Wait until the wall has so many cards. Return the pending approvals."""
    while len(events(supervisor.store, session, e.CardPosted)) < count:
        await anyio.sleep(0.1)
    return await supervisor.find_approvals()


@pytest.mark.parametrize(("text", "kind"), [("yes", "ok"), ("Approve", "ok"), ("no", "denied"), ("reject", "denied")])
async def test_a_word_decides_the_only_approval_that_waits_and_was_shown(text, kind):
    """It decides in the name of the person."""
    async with opened(channels=[Wall()]) as supervisor:
        run = await supervisor.start(deploys, ["a"], session="s")
        (approval,) = await shown(supervisor, "s", 1)
        heard = await supervisor.chat("s", text, by="ana", shown_before=EVER)
        assert (heard.kind, heard.approvals[0].id, heard.results[0].by) == ("decided", approval.id, "ana")
        assert await run.result() == [kind]
        assert events(supervisor.store, "s", e.MessageReceived) == []


@pytest.mark.parametrize("text", ["ok", "Yes!", "go ahead", "deny", "👍", "nein, danke"])
async def test_a_near_word_is_answered_with_what_waits_and_kept_nowhere(text):
    """After a denial it would be an order to the agent. If nothing waits, it is a message."""
    async with opened(channels=[Wall()]) as supervisor:
        run = await supervisor.start(deploys, ["a"], session="s")
        (approval,) = await shown(supervisor, "s", 1)
        heard = await supervisor.chat("s", text, by="ana", shown_before=EVER)
        assert (heard.kind, [each.id for each in heard.approvals]) == ("listed", [approval.id])
        assert list(await supervisor.find_approvals()) == [approval]
        await supervisor.chat("s", "no", by="ana", shown_before=EVER)
        assert await run.result() == ["denied"]
        assert events(supervisor.store, "s", e.MessageReceived) == []
        with pytest.raises(InvalidInput):  # a message, which this agent does not take
            await supervisor.chat("s", text, by="ana", shown_before=EVER)


async def test_a_word_that_was_said_before_the_card_was_shown_decides_nothing():
    """So it is if the card was shown elsewhere. The reply lists the approval with its id, which then decides."""
    async with opened(channels=[Wall()]) as supervisor:
        run = await supervisor.start(deploys, ["a"], session="s")
        (approval,) = await shown(supervisor, "s", 1)
        posted = events(supervisor.store, "s", e.CardPosted)[0].at
        for heard in (
            await supervisor.chat("s", "yes", by="ana", shown_before=posted - timedelta(seconds=1)),
            await supervisor.chat("s", "yes", by="ana", shown_before=EVER, channel="elsewhere"),
        ):
            assert (heard.kind, [each.id for each in heard.approvals]) == ("listed", [approval.id])
        assert list(await supervisor.find_approvals()) == [approval]
        heard = await supervisor.chat("s", f"yes {approval.id}", by="ana", shown_before=posted - timedelta(seconds=1))
        assert heard.results[0].kind == "accepted"
        assert await run.result() == ["ok"]


async def test_a_bare_yes_decides_nothing_that_was_shown_in_part():
    """A11, A12: the reply lists it with its id, which is explicit. A bare no does not need the whole card."""
    async with opened(channels=[Strip()]) as supervisor:
        run = await supervisor.start(deploys, ["a", "b"], session="s")
        first, second = await shown(supervisor, "s", 2)
        await supervisor.chat("s", f"yes {first.id}", by="ana", shown_before=EVER)
        assert (await supervisor.chat("s", "yes", by="ana", shown_before=EVER)).kind == "listed"
        assert list(await supervisor.find_approvals()) == [second]
        assert (await supervisor.chat("s", "no", by="ana", shown_before=EVER)).kind == "decided"
        assert sorted(await run.result()) == ["denied", "ok"]


async def test_of_several_a_bare_word_decides_none_and_an_id_decides_one():
    """The reply lists them. An id of another session does not count."""
    async with opened(channels=[Wall()]) as supervisor:
        run = await supervisor.start(deploys, ["a", "b"], session="s")
        other = await supervisor.start(deploys, ["x"], session="t")
        first, second = [each for each in await shown(supervisor, "s", 2) if each.session == "s"]
        (elsewhere,) = [each for each in await shown(supervisor, "t", 1) if each.session == "t"]
        heard = await supervisor.chat("s", "yes", by="ana", shown_before=EVER)
        assert (heard.kind, heard.results, [each.id for each in heard.approvals]) == (
            "listed",
            (),
            [first.id, second.id],
        )
        heard = await supervisor.chat("s", f"yes {elsewhere.id}", by="ana", shown_before=EVER)
        assert (heard.kind, heard.results[0].kind) == ("listed", "unknown")
        assert len(await supervisor.find_approvals()) == 3
        await supervisor.chat("s", f"no {second.id}", by="ana", shown_before=EVER)
        await supervisor.chat("s", "yes", by="ana", shown_before=EVER)
        assert sorted(await run.result()) == ["denied", "ok"]
        await supervisor.chat("t", "yes", by="ana", shown_before=EVER)
        assert await other.result() == ["ok"]


async def test_approve_all_approves_the_calls_that_wait_now():
    """It approves them in the session and below it. Later calls ask."""
    async with opened(channels=[Wall()]) as supervisor:
        run = await supervisor.start(twice, session="s")
        child = (await next_of(run.watch_approvals())).session
        await shown(supervisor, child, 2)
        heard = await supervisor.chat("s", "approve all", by="ana", shown_before=EVER)
        assert sorted(each.arguments["target"] for each in heard.approvals) == ["a", "b"]
        assert {result.kind for result in heard.results} == {"accepted"}
        trail = [row.event for row in await supervisor.find_audit(limit=None)]
        assert len({each.batch for each in trail if isinstance(each, e.ApprovalDecided)} - {None}) == 1
        (third,) = [await next_of(supervisor.watch_approvals())]
        assert (third.arguments, sorted(effects)) == ({"target": "c"}, ["a", "b"])
        await supervisor.chat("s", f"no {third.id}", by="ana", shown_before=EVER)
        assert await run.result() == ["ok", "ok", "denied"]


@pytest.mark.parametrize("text", ["approve all", "approve all for session"])
async def test_approve_all_decides_the_calls_shown_before_and_lists_the_others(text):
    """A12: calls that asked while it was typed do not count, and neither do those after a restart that replays it."""
    async with opened(channels=[Wall()]) as supervisor:
        first = await supervisor.start(deploys, ["a"], session="s")
        (early,) = await shown(supervisor, "s", 1)
        said = events(supervisor.store, "s", e.CardPosted)[0].at
        await anyio.sleep(1)
        assert (await supervisor.chat("s", text, by="ana", shown_before=said - timedelta(seconds=1))).kind == "listed"
        assert (await supervisor.chat("s", text, by="ana", shown_before=EVER, channel="elsewhere")).kind == "listed"
        heard = await supervisor.chat("s", text, by="ana", shown_before=said)
        assert [each.id for each in heard.approvals] == [early.id]
        assert await first.result() == ["ok"]


async def test_approve_all_names_the_waiting_calls_that_were_not_shown():
    """They were shown in part, by the caller's own record, or by both. They keep waiting, and no rule allows them."""
    async with opened(channels=[Wall()]) as supervisor:
        await supervisor.start(deploys, ["a", "b", "c"], session="s")
        a, b, c = await shown(supervisor, "s", 3)
        heard = await supervisor.chat("s", "approve all", by="ana", shown_before=EVER, shown={a.id})
        assert ([each.id for each in heard.approvals], [each.id for each in heard.not_shown]) == ([a.id], [b.id, c.id])
        heard = await supervisor.chat(
            "s", "approve all", by="ana", shown_before=EVER, channel="elsewhere", shown={b.id}
        )
        assert (heard.kind, len(heard.approvals)) == ("listed", 2)
        heard = await supervisor.chat("s", "approve all", by="ana", shown_before=EVER, channel="wall", shown={b.id})
        assert [each.id for each in heard.not_shown] == [c.id]
        assert list(await supervisor.find_approvals()) == [c]


async def test_approve_all_for_session_grants_what_each_card_offers_in_this_tree():
    """A7: each rule is for exactly one of these calls, is listed, and holds in no other tree. No tool is allowed."""
    async with opened(channels=[Wall()]) as supervisor:
        run = await supervisor.start(twice, session="s")
        await shown(supervisor, (await next_of(run.watch_approvals())).session, 2)
        heard = await supervisor.chat("s", "approve all for session", by="ana", shown_before=EVER)
        assert sorted((rule.tool, rule.pattern, rule.session, rule.by) for rule in heard.rules) == [
            ("deploy", f'{{"target":"{each}"}}', "s", "ana") for each in "ab"
        ]
        assert set(heard.rules) <= {*await supervisor.find_rules()}
        (other,) = await shown(supervisor, (await next_of(run.watch_approvals())).session, 1)
        assert other.arguments == {"target": "c"}
        await supervisor.decide(other.id, Approve(by="ana"))
        assert await run.result() == ["ok", "ok", "ok"]
        await supervisor.start(deploys, ["a"], session="t")
        assert len(await shown(supervisor, "t", 1)) == 1


async def test_approvals_of_other_people_do_not_count():
    """A4: no word decides another person's approval. Only a person who may do so allows tools for a session."""
    async with opened(channels=[Wall()]) as supervisor:
        ana, bob = Person(name="ana", roles=("approver",)), Person(name="bob")
        supervisor.people = People([ana, bob], [ApproverRule(approvers=("zoe",), agent="another")])
        run = await supervisor.start(deploys, ["a"], session="s", requester="zoe")
        (approval,) = await shown(supervisor, "s", 1)
        for word in ("approve all", f"yes {approval.id}"):
            with pytest.raises(NotEntitled):
                await supervisor.chat("s", word, by="bob", shown_before=EVER)
        assert list(await supervisor.find_approvals()) == [approval]
        heard = await supervisor.chat("s", "approve all for session", by="ana", shown_before=EVER)
        assert (heard.may_not_allow, heard.rules, list(await supervisor.find_rules())) == (True, (), [])
        assert await run.result() == ["ok"]


async def test_yes_answers_a_question_of_yes_or_no_and_nothing_else_is_an_answer():
    """Any other text is sent, since only a word decides. If nothing waits, a word is sent, too."""
    async with opened(channels=[Wall()]) as supervisor:
        run = await supervisor.start(asks, "hi", session="s")
        await shown(supervisor, "s", 1)
        assert (await supervisor.chat("s", "approve", by="ana", shown_before=EVER)).kind == "listed"
        assert (await supervisor.chat("s", "yes", by="ana", shown_before=EVER)).results[0].kind == "accepted"
        (why,) = await shown(supervisor, "s", 2)
        heard = await supervisor.chat("s", "because", by="ana", shown_before=EVER)
        assert (heard.kind, heard.sent.kind, heard.sent.waiting_for[0].id) == ("sent", "kept", why.id)
        for word in ("yes", "approve all", "approve all for session"):
            heard = await supervisor.chat("s", word, by="ana", shown_before=EVER)
            assert (heard.kind, [each.id for each in heard.approvals]) == ("listed", [why.id])
        await supervisor.decide(why.id, Answer(value="so", by="ana"))
        assert await run.result() == "Truesobecause"
        assert (await supervisor.chat("s", "no", by="ana", shown_before=EVER)).sent.kind == "begun"


async def test_a_text_needs_the_name_of_a_person():
    """A4: an empty identity decides nothing, and sends nothing."""
    async with opened(MemoryStore()) as supervisor:
        await supervisor.start(asks, "hi", session="s")
        for text in ("yes", "hello"):
            with pytest.raises(InvalidInput):
                await supervisor.chat("s", text, by=" ", shown_before=EVER)


@pytest.mark.parametrize("text", ["yes", "no", "approve all", "because"])
async def test_a_word_that_decides_nothing_is_no_message_of_a_person_who_may_not_send(text):
    """A4, A12: the command itself refuses a person who was slower than another one, or who chats. Nothing is sent."""
    store, bob = MemoryStore(), Person(name="bob", roles=("approver",))
    async with opened(store, channels=[Wall()], people=People([OLGA, bob], [])) as supervisor:
        run = await supervisor.start(deploys, ["a"], session="s", requester="olga")
        (approval,) = await shown(supervisor, "s", 1)
        await supervisor.decide(approval.id, Approve(by="olga"))
        with pytest.raises(NotEntitled):
            await supervisor.chat("s", text, by="bob", shown_before=EVER)
        with pytest.raises(NotEntitled):
            await supervisor.send("s", text, by="bob")
        assert events(store, "s", e.MessageReceived) == []
        assert await run.result() == ["ok"]


async def test_a_word_of_a_person_who_may_not_decide_is_refused_and_in_the_audit_trail():
    """A15: it is there once, with the reason."""
    store, bob = MemoryStore(), Person(name="bob", roles=("approver",))
    people = People([OLGA, bob], [ApproverRule(approvers=("olga",), agent="deploys")])
    async with opened(store, channels=[Wall()], people=people) as supervisor:
        await supervisor.start(deploys, ["a"], session="s", requester="olga")
        (approval,) = await shown(supervisor, "s", 1)
        for _ in range(2):
            with pytest.raises(NotEntitled):
                await supervisor.chat("s", "yes", by="bob", shown_before=EVER)
        (refused,) = events(store, "s", e.DecisionRefused)
        assert (refused.approval, refused.by) == (approval.id, "bob")
        await supervisor.cancel("s", by="olga")


class Desk(Wall):
    """Authenticates people."""

    name = "desk"

    def __init__(self, people):
        self.people = people


async def test_whom_a_channel_authenticates_the_supervisor_asks_about():
    """A4: also if the program gives people to the channel only. Channels that know different people do not open."""
    people = People([OLGA, Person(name="bob", roles=("approver",))])
    async with opened(channels=[Wall(), Desk(people), Desk(people)]) as supervisor:
        for command in (supervisor.start(deploys, ["a"], by="bob"), supervisor.resume_all(by="bob")):
            with pytest.raises(NotEntitled):
                await command
        run = await supervisor.start(deploys, [], session="s", by="olga")
        assert await run.result() == []
        with pytest.raises(NotEntitled):
            await supervisor.cancel("s", by="bob")
    with pytest.raises(InvalidInput):
        async with opened(channels=[Desk(people), Desk(People([OLGA]))]):
            pass


@pytest.mark.parametrize("text", ["no for session", "no always", "no ID for session"])
async def test_a_no_for_longer_denies_once_what_no_rule_can_deny(text):
    """A12: the person has said no, and the call must not go on waiting. They read that it was for once."""
    async with opened(channels=[Wall()]) as supervisor:
        run = await supervisor.start(has_no_arguments, session="s")
        (approval,) = await shown(supervisor, "s", 1)
        heard = await supervisor.chat("s", text.replace("ID", approval.id), by="ana", shown_before=EVER)
        assert ([each.kind for each in heard.results], heard.once) == (["accepted"], heard.approvals)
        assert f"decided once only: restart [{approval.id}]" in heard_lines(heard, EVER)
        assert await run.result() == "denied"
        assert not await supervisor.find_rules()


@pytest.mark.parametrize(
    ("text", "end"),
    [("yes next 1", (1, False)), ("approve ID for 10 minutes", (None, True)), ("yes SHORT next 1", (1, False))],
)
async def test_a_yes_with_an_end_allows_the_calls_like_it_until_then(text, end):
    """A12, A19: in this session, as the card offers it; a call of which no rule could be made is approved once."""
    async with opened(channels=[Wall()]) as supervisor:
        run = await supervisor.start(again, session="s")
        (asked,) = await shown(supervisor, "s", 1)
        said = text.replace("ID", asked.id).replace("SHORT", short_ids([asked.id])[asked.id])
        heard = await supervisor.chat("s", said, by="ana", shown_before=EVER)
        assert ([each.kind for each in heard.results], heard.once) == (["accepted"], ())
        assert await run.result() == ["ok", "ok"]
        (rule,) = await supervisor.find_rules()
        assert ((rule.uses, rule.until is not None), rule.session, rule.used) == (end, "s", rule.uses or 0)
        await supervisor.start(has_no_arguments, session="t")
        (asked,) = await shown(supervisor, "t", 1)
        heard = await supervisor.chat("t", "yes next 5", by="ana", shown_before=EVER)
        assert ([each.kind for each in heard.results], heard.once) == (["accepted"], heard.approvals)


@pytest.mark.parametrize(("text", "session"), [("no for session", "s"), ("reject always", None)])
async def test_a_no_for_longer_denies_the_same_call_later(text, session):
    """A7, A12: the rule is for exactly this call. The card must have shown it whole."""
    async with opened(channels=[Wall()]) as supervisor:
        run = await supervisor.start(again, session="s")
        await shown(supervisor, "s", 1)
        heard = await supervisor.chat("s", text, by="ana", shown_before=EVER)
        assert [each.kind for each in heard.results] == ["accepted"]
        assert await run.result() == ["denied", "denied"]
        (rule,) = await supervisor.find_rules()
        assert (rule.kind, rule.exact, rule.pattern, rule.session) == ("deny", True, '{"target":"a"}', session)
        yes_or_no = await supervisor.start(asks, "hi", session="t")
        await shown(supervisor, "t", 1)
        assert (await supervisor.chat("t", text, by="ana", shown_before=EVER)).kind == "listed"
        await yes_or_no.cancel()


@pytest.mark.parametrize(
    ("agent", "values", "text", "is_told"),
    [
        (deploys, (["a", "b"],), "approve all", True),
        (deploys, (["a", "b"],), "approve all for session", False),
        (has_no_arguments, (), "approve all", False),
    ],
)
async def test_approve_all_says_how_to_cover_later_calls_if_a_longer_word_could(agent, values, text, is_told):
    """A12: it decides what waits, and a later call asks again. A call without arguments is offered nothing longer."""
    async with opened(channels=[Wall()]) as supervisor:
        await supervisor.start(agent, *values, session="s")
        await shown(supervisor, "s", 2 if values else 1)
        heard = await supervisor.chat("s", text, by="ana", shown_before=EVER)
        said = [line for line in heard_lines(heard, EVER) if "approve all for session" in line]
        assert (said == [heard.hint], bool(heard.hint)) == (is_told, is_told)


async def test_approve_all_hints_at_nothing_that_its_sender_may_not_grant():
    """A12: an approver may not grant here what is reserved elsewhere."""
    people = People(
        [OLGA, Person(name="bob", roles=("approver",))], [ApproverRule(approvers=("olga",), agent="another")]
    )
    async with opened(channels=[Wall()], people=people) as supervisor:
        await supervisor.start(deploys, ["a"], session="s")
        await shown(supervisor, "s", 1)
        assert not (await supervisor.chat("s", "approve all", by="bob", shown_before=EVER)).hint


async def test_an_approval_says_for_whom_with_which_roles_and_its_message_says_which_call():
    """A2: the roles are those that the requester had when the session was started, for a sub-agent's calls, too."""
    people = People([OLGA, Person(name="bob", roles=("approver",))])
    async with opened(people=people) as supervisor:
        run = await supervisor.start(twice, session="s", requester="bob", by="olga")
        approval = await next_of(run.watch_approvals())
        assert (approval.requester, approval.requester_roles) == ("bob", ("approver",))
        (message,) = [
            each for each in await supervisor.get_transcript(approval.session) if each.approval == approval.id
        ]
        assert (message.kind, message.tool, message.call) == ("approval", "deploy", approval.operation)
        other = await supervisor.start(again, session="u", requester="stranger", by="olga")
        unknown = await next_of(other.watch_approvals())
        assert unknown.requester_roles == ()
        for session in ("s", "u"):
            await supervisor.cancel(session)
