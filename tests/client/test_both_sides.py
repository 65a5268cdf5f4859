"""One suite for all Supervisors: next to a store, over HTTP, and on Temporal."""

from datetime import UTC, datetime, timedelta
from operator import attrgetter

import anyio
import msgspec
import pytest
from remote_agents import AGENTS, chief, doubling, effects, failing, greeting, note, thinking
from sides import side

from supervisor import (
    Answer,
    Approve,
    Budget,
    CursorUnknown,
    Deny,
    InvalidInput,
    NotEntitled,
    NotFound,
    RunCancelled,
    RunFailed,
    SessionConflict,
    Supervisor,
    UnknownAgent,
    allow,
    deny,
)
from supervisor.core import events as e
from supervisor.runtime.chat import chat
from supervisor.seam.commands import Chat

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("kind", ["local", "remote", "temporal"])]


async def take(watch, count: int) -> list:
    return [await anext(watch) for _ in range(count)]


async def test_every_supervisor_has_what_the_interface_names(kind):
    """A program counts with it, wherever the supervisor is."""
    async with side(kind) as here:
        assert {name for name in Supervisor.__annotations__ if not hasattr(here.supervisor, name)} == set()
        assert here.supervisor.cards_failed == {}


# -- starting ----------------------------------------------------------------------------------------------------------


async def test_an_agent_is_started_and_its_result_is_typed(kind):
    """By its declaration; `number` counts the runs of its session."""
    async with side(kind) as here:
        run = await here.supervisor.start(doubling, 21, requester="olga")
        assert (await run.result(), run.number, run.is_new) == (42, 1, True)
        outcome = await run.find_outcome()
        assert (outcome.kind, outcome.value) == ("succeeded", 42)


async def test_an_agent_is_started_by_its_name(kind):
    """With plain JSON, or with its default input."""
    async with side(kind) as here:
        assert await (await here.supervisor.start("greeting", "ann", requester="olga")).result() == "hello ann"
        assert await (await here.supervisor.start("greeting", requester="olga")).result() == "hello you"
        assert await (await here.supervisor.start(greeting, requester="olga")).result() == "hello you"


async def test_starting_a_session_again_is_the_same_run(kind):
    """And another input, or another agent, is a conflict."""
    async with side(kind) as here:
        first = await here.supervisor.start(doubling, 4, session="mine", requester="olga")
        again = await here.supervisor.start("doubling", 4, session="mine", requester="olga")
        assert (first.is_new, again.is_new, await again.result()) == (True, False, 8)
        for agent, given in [(doubling, 5), (greeting, "x")]:
            with pytest.raises(SessionConflict):
                await here.supervisor.start(agent, given, session="mine", requester="olga")


@pytest.mark.parametrize(
    ("agent", "given", "error"),
    [
        ("nothing", (), UnknownAgent),
        ("doubling", ("x",), InvalidInput),
        ("doubling", (), InvalidInput),
        ("acp:opencode acp", ("x",), InvalidInput),
    ],
)
async def test_a_refused_start_names_the_reason(kind, agent, given, error):
    """An unknown name, an input that does not fit, one that is missing, a command in place of a name."""
    async with side(kind) as here:
        with pytest.raises(error):
            await here.supervisor.start(agent, *given, requester="olga")
        assert len(await here.supervisor.find_sessions()) == 0


async def test_the_folder_of_a_session_is_chosen_next_to_the_store_only(kind, tmp_path):
    """Over HTTP it is refused, whoever asks: a server's agents work where the server was told to."""
    async with side(kind) as here:
        if kind == "remote":
            with pytest.raises(InvalidInput, match="folders"):
                await here.supervisor.start(doubling, 4, cwd=str(tmp_path), requester="olga")
            assert len(await here.supervisor.find_sessions()) == 0
        else:
            run = await here.supervisor.start(doubling, 4, cwd=str(tmp_path), requester="olga")
            (entry,) = await here.supervisor.find_entries(run.session, limit=1)
            assert entry.event.cwd == str(tmp_path)


async def test_a_run_that_fails_and_one_that_is_cancelled_raise_their_kind(kind):
    """With the cause."""
    async with side(kind) as here:
        with pytest.raises(RunFailed) as failed:
            await (await here.supervisor.start(failing, requester="olga")).result()
        assert "not today" in failed.value.cause
        run, _ = await here.ask()
        await here.supervisor.cancel(run.session, reason="enough", by="olga")
        with pytest.raises(RunCancelled) as cancelled:
            await run.result()
        assert "enough" in cancelled.value.cause


# -- deciding ----------------------------------------------------------------------------------------------------------


async def test_an_approval_runs_the_call_once(kind):
    """And the same decision again is `already`, another one a conflict."""
    async with side(kind) as here:
        run, asked = await here.ask("bread")
        accepted = await here.supervisor.decide(asked.id, Approve(by="olga"))
        assert (accepted.kind, accepted.by, accepted.is_accepted) == ("accepted", "olga", True)
        assert await run.result() == ["noted bread"]
        assert (await here.supervisor.decide(asked.id, Approve(by="olga"))).kind == "already"
        assert (await here.supervisor.decide(asked.id, Deny(by="olga"))).kind == "conflict"
        assert effects == ["bread"]


async def test_a_denial_reaches_the_agent_with_its_reason(kind):
    """As the result of the call."""
    async with side(kind) as here:
        run, asked = await here.ask("bread")
        await here.supervisor.decide(asked.id, Deny(by="olga", reason="no bread"))
        assert "no bread" in (await run.result())[0]
        found = await here.supervisor.get_approval(asked.id)
        assert (found.status, found.by, found.reason, effects) == ("denied", "olga", "no bread", [])


async def test_edited_arguments_run_instead(kind):
    """A8."""
    async with side(kind) as here:
        run, asked = await here.ask("bread")
        await here.supervisor.decide(asked.id, Approve(by="olga", arguments={"text": "cake"}))
        assert (await run.result(), effects) == (["noted cake"], ["cake"])


async def test_a_wider_scope_makes_a_rule(kind):
    """Which is listed, and revoked by its id."""
    async with side(kind) as here:
        run, asked = await here.ask("bread", "bread")
        decided = await here.supervisor.decide(asked.id, Approve(by="olga", scope="session"))
        assert await run.result() == ["noted bread"] * 2
        (rule,) = await here.supervisor.find_rules()
        assert (rule.id, rule.kind, rule.session) == (decided.rule, "allow", run.session)
        assert (await here.supervisor.revoke_rule(rule.id, by="olga")).id == rule.id
        assert list(await here.supervisor.find_rules()) == []


async def test_an_allowance_ends_by_itself(kind):
    """A19: the rule says what is left; an approval says what is offered, and what was given."""
    if kind == "temporal":  # there is none with uses: tests/temporal/test_temporal_rules.py
        return
    async with side(kind) as here:
        _, asked = await here.ask("bread", "bread", "bread")
        assert [(each.uses, each.minutes) for each in asked.allowances] == [(10, None), (None, 15)]
        with pytest.raises(InvalidInput):
            await here.supervisor.decide(asked.id, Approve(by="olga", uses=0))
        decided = await here.supervisor.decide(asked.id, Approve(by="olga", uses=1))
        assert (await here.supervisor.decide(asked.id, Approve(by="olga", uses=1))).kind == "already"
        with anyio.fail_after(10):
            while not (waiting := await here.supervisor.find_approvals()):
                await anyio.sleep(0.05)
        until = datetime.now(UTC) + timedelta(hours=1)
        await here.supervisor.decide(waiting[0].id, Approve(by="olga", scope="always", until=until))
        first, second = await here.supervisor.find_rules()
        assert (first.id, first.uses, first.used, first.ended) == (decided.rule, 1, 1, True)
        assert (second.session, second.until, second.ended) == (None, until, False)
        assert (await here.supervisor.get_approval(asked.id)).uses == 1
        added = await here.supervisor.add_rule(allow("note", '{"text":"x"}', uses=3, until=until), by="olga")
        assert (added.uses, added.until) == (3, until)


@pytest.mark.parametrize("scope", ["session", "always"])
async def test_a_denial_for_longer_denies_the_same_call_without_asking(kind, scope):
    """It is a rule for exactly this call, with its reason, which is listed."""
    async with side(kind) as here:
        run, asked = await here.ask("bread", "bread")
        decided = await here.supervisor.decide(asked.id, Deny(by="olga", reason="not today", scope=scope))
        first, second = await run.result()
        assert ("not today" in first, "not today" in second, effects) == (True, True, [])
        found = {rule.id: rule for rule in await here.supervisor.find_rules()}[decided.rule]
        assert (found.kind, found.exact, found.reason) == ("deny", True, "not today")
        assert found.session == (run.session if scope == "session" else None)
        again = [Deny(by="olga"), Deny(by="olga", scope=scope), Deny(by="olga", scope="once", pattern="x")]
        kinds = [(await here.supervisor.decide(asked.id, each)).kind for each in again[:2]]
        assert kinds == ["already", "already"]
        with pytest.raises(InvalidInput):
            await here.supervisor.decide(asked.id, again[2])


@pytest.mark.parametrize("wrong", [None, True, {}, "yes", Approve(by=None), Deny(by="olga", scope="ever")], ids=repr)
async def test_a_value_that_is_no_decision_decides_nothing(kind, wrong):
    """It is refused as invalid input, whatever it is."""
    async with side(kind) as here:
        _, asked = await here.ask("bread")
        with pytest.raises(InvalidInput):
            await here.supervisor.decide(asked.id, wrong)
        assert (await here.supervisor.get_approval(asked.id)).status == "pending"


async def test_an_edit_with_a_nan_decides_nothing(kind):
    """JSON cannot hold it: it would run as null."""
    async with side(kind) as here:
        _, asked = await here.ask("bread")
        with pytest.raises(InvalidInput):
            await here.supervisor.decide(asked.id, Approve(by="olga", arguments={"text": [float("nan")]}))
        assert (await here.supervisor.get_approval(asked.id)).status == "pending"


async def test_several_calls_are_decided_together_under_one_id(kind):
    """A16: what was decided before, another digest, and an id of no approval stop no other."""
    async with side(kind) as here:
        (_, one), (last, two) = await here.ask("bread"), await here.ask("milk")
        given = [(one.id, Approve(by="olga")), ("x" * 42, Approve(by="olga")), (two.id, Deny(by="olga", reason="no"))]
        shown = {one.id: one.digest, two.id: "0" * 64}
        results = await here.supervisor.decide_all(given, channel="desk", shown=shown, batch="night")
        assert [each.kind for each in results] == ["accepted", "unknown", "conflict"]
        again = await here.supervisor.decide_all(given, channel="desk", batch="night")
        assert [each.kind for each in again] == ["already", "unknown", "accepted"]
        (denied,) = await last.result()
        assert denied.startswith("denied by olga: no")
        trail = [row.event for row in await here.supervisor.find_audit(limit=None)]
        decided = [each for each in trail if isinstance(each, e.ApprovalDecided)]
        assert [(each.batch, each.channel) for each in decided] == [("night", "desk")] * 2


async def test_a_question_is_answered(kind):
    """With one of its choices, and nothing else."""
    async with side(kind) as here:
        run = await here.supervisor.start("asking", requester="olga")
        async with run.watch_approvals() as watch:
            asked = await anext(watch)
        for wrong in (Answer(value="milk", by="olga"), Approve(by="olga")):
            with pytest.raises(InvalidInput):
                await here.supervisor.decide(asked.id, wrong)
        assert (await here.supervisor.decide(asked.id, Answer(value="tea", by="olga"))).kind == "accepted"
        assert await run.result() == "tea"


@pytest.mark.parametrize("channel", ["command line", "My_App-2.0"])
async def test_a_decision_is_journaled_with_its_channel(kind, channel):
    """Also if it is made on another machine."""
    async with side(kind) as here:
        _, asked = await here.ask("bread")
        await here.supervisor.decide(asked.id, Approve(by="olga"), channel=channel)
        (made,) = [row.event for row in await here.supervisor.find_audit() if isinstance(row.event, e.ApprovalDecided)]
        assert (made.by, made.channel) == ("olga", channel)


async def test_a_late_decision_is_a_result(kind):
    """An unknown approval, a withdrawn one."""
    async with side(kind) as here:
        run, asked = await here.ask()
        await here.supervisor.cancel(run.session, by="olga")
        await run.outcome()
        assert (await here.supervisor.decide(asked.id, Approve(by="olga"))).kind == "closed"
        assert (await here.supervisor.decide("x" * 42, Approve(by="olga"))).kind == "unknown"


async def test_a_decision_without_entitlement_is_refused_and_journaled(kind):
    """A4: the approval stays pending, and the audit trail has it."""
    async with side(kind, who="bob", served=True) as here:
        run = await here.local.start(chief, ["bread"], requester="olga")
        async with run.watch_approvals() as watch:
            asked = await anext(watch)
        with pytest.raises(NotEntitled):
            await here.supervisor.decide(asked.id, Approve(by="bob"))
        assert (await here.supervisor.get_approval(asked.id)).status == "pending"
        refused = [row.event for row in await here.supervisor.find_audit() if isinstance(row.event, e.DecisionRefused)]
        assert [(each.by, each.approval) for each in refused] == [("bob", asked.id)]


@pytest.mark.parametrize("who", ["ana", "bob"])
async def test_only_operators_command(kind, who):
    """Roles: to decide is not to command."""
    async with side(kind, who=who, served=True) as here:
        await (await here.local.start(doubling, 1, session="done", requester="olga")).outcome()
        for refused in (
            lambda: here.supervisor.add_rule(deny("note"), by=who),
            lambda: here.supervisor.revoke_rule("x", by=who),
            lambda: here.supervisor.retry("done", by=who),
            lambda: here.supervisor.resume("done", by=who),
            lambda: here.supervisor.resume_all(by=who),
            lambda: here.supervisor.fork("done", before=2, by=who),
        ):
            with pytest.raises(NotEntitled):
                await refused()


async def test_a_note_of_a_channel_is_kept_or_refused(kind):
    """Next to the store it is in the journal. A client over HTTP is told that the server notes such things itself."""
    async with side(kind, served=True) as here:
        run, asked = await here.ask()
        for noting in (
            lambda: here.supervisor.note_refusal(asked.id, by="bob", reason="no", channel="slack"),
            lambda: here.supervisor.note_shown(run.session, "m1", channel="slack"),
        ):
            if kind == "remote":
                with pytest.raises(InvalidInput):
                    await noting()
            else:
                await noting()
        found = {type(row.event) for row in await here.local.find_entries(run.session)}
        assert (found >= {e.DecisionRefused, e.MessageShown}) == (kind != "remote")


# -- messages ----------------------------------------------------------------------------------------------------------


async def test_a_message_begins_a_turn(kind):
    """The result says so, and the run is the session's next one."""
    async with side(kind) as here:
        await (await here.supervisor.start("chatting", "one", session="talk", requester="olga")).outcome()
        sent = await here.supervisor.send("talk", "yes", by="olga")
        assert (sent.kind, sent.session) == ("begun", "talk")
        run = await here.supervisor.get_run("talk")
        assert run.number == 2
        assert (await run.result()).endswith("before yes")
        said = [message.text for message in await here.supervisor.get_transcript("talk")]
        assert "yes" in said


async def test_a_cancel_of_a_run_spares_the_next_one(kind):
    """Its handle means the run, and not whatever its session does later."""
    async with side(kind) as here:
        first = await here.supervisor.start("jotting", "bread", session="mine", requester="olga")
        async with first.watch_approvals() as watch:
            await here.supervisor.decide((await anext(watch)).id, Approve(by="olga"))
        await first.outcome()
        await here.supervisor.send("mine", "cake", by="olga")
        second = await here.supervisor.get_run("mine")
        await first.cancel("too late")
        async with second.watch_approvals() as watch:
            await here.supervisor.decide((await anext(watch)).id, Approve(by="olga"))
        assert (second.number, await second.result()) == (2, "noted cake")


async def test_get_run_types_the_result_by_an_agent(kind):
    """Without one it is plain JSON; each run of a session has its own."""
    async with side(kind) as here:
        await (await here.supervisor.start(doubling, 2, session="two", requester="olga")).outcome()
        assert await (await here.supervisor.get_run("two", agent=doubling)).result() == 4
        assert await (await here.supervisor.get_run("two", number=1)).result() == 4
        with pytest.raises(NotFound):
            await here.supervisor.get_run("two", number=2)


async def test_a_chat_word_decides_and_other_words_are_sent(kind):
    """A12: a bare yes decides what alone waits and was shown before."""
    async with side(kind, served=True) as here:
        run, asked = await here.ask("bread")
        while not (await here.supervisor.get_approval(asked.id)).shown:
            await anyio.sleep(0.01)
        heard = await here.supervisor.chat(run.session, "yes", by="olga", shown_before=datetime.now(UTC))
        assert (heard.kind, [each.kind for each in heard.results]) == ("decided", ["accepted"])
        assert await run.result() == ["noted bread"]


async def test_a_word_that_could_mean_several_lists_them(kind):
    """Nothing is decided."""
    async with side(kind) as here:
        run, asked = await here.ask("bread")
        heard = await here.supervisor.chat(run.session, "yes", by="olga", shown_before=asked.created_at)
        assert (heard.kind, [each.id for each in heard.approvals]) == ("listed", [asked.id])
        assert effects == []


async def test_a_word_decides_what_its_caller_has_shown(kind):
    """Although no card was posted before; and only that."""
    async with side(kind) as here:
        run, asked = await here.ask("bread")
        for shown, answer in [(["x" * 42], "listed"), ([asked.id], "decided")]:
            heard = await here.supervisor.chat(
                run.session, "yes", by="olga", shown_before=asked.created_at, shown=shown
            )
            assert heard.kind == answer
        assert await run.result() == ["noted bread"]


async def test_an_operator_sees_credentials_wherever_the_supervisor_is(kind):
    """All others have a mask; the audit trail says who has looked (A15)."""
    token = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    async with side(kind) as here:
        run = await here.supervisor.start("noting", [f"{token} x"], requester="olga")
        async with run.watch_approvals() as watch:
            asked = await anext(watch)
        assert (asked.arguments, asked.masked) == ({"text": "[secret 1] x"}, ("text",))
        assert await here.supervisor.reveal(asked.id, by="olga") == {"text": f"{token} x"}
        assert any(isinstance(row.event, e.CredentialsShown) for row in await here.supervisor.find_audit())
        await here.supervisor.decide(asked.id, Deny(by="olga"))
        await run.outcome()


async def test_a_text_answers_the_question_that_its_channel_has_shown(kind):
    """With the channel in the audit trail. Another channel has shown nothing: there it is a message."""
    async with side(kind, served=True) as here:
        run = await here.supervisor.start("asking", session="tea", requester="olga")
        async with run.watch_approvals() as watch:
            asked = await anext(watch)
        while "web" not in (await here.supervisor.get_approval(asked.id)).shown:
            await anyio.sleep(0.01)
        for channel, answer in [("slack", "sent"), ("web", "decided")]:
            assert (await here.supervisor.chat("tea", "coffee", by="olga", channel=channel)).kind == answer
        assert await run.result() == "coffee"
        (made,) = [row.event for row in await here.supervisor.find_audit() if isinstance(row.event, e.QuestionAnswered)]
        assert (made.by, made.channel) == ("olga", "web")


# -- rules, retry, fork ------------------------------------------------------------------------------------------------


async def test_a_rule_is_added_once_and_counts(kind):
    """The same again is the one that stands."""
    async with side(kind) as here:
        added = await here.supervisor.add_rule(allow(note), by="olga")
        assert (await here.supervisor.add_rule(allow(note), by="olga")).id == added.id
        run = await here.supervisor.start("noting", ["bread"], requester="olga")
        assert await run.result() == ["noted bread"]
        with pytest.raises(NotFound):
            await here.supervisor.revoke_rule("r" * 22, by="olga")


async def test_a_run_that_failed_is_retried(kind, monkeypatch):
    """R10: a new run of the same session."""
    async with side(kind) as here:
        run = await here.supervisor.start(failing, session="bad", requester="olga")
        assert (await run.outcome()).kind == "failed"
        monkeypatch.setenv("REMOTE_TEST_WORKS", "1")
        again = await here.supervisor.retry("bad", by="olga")
        assert (again.number, await again.result()) == (2, "works")


async def test_a_tree_is_forked_before_an_entry(kind):
    """R10: what was decided after it is asked anew; the same fork again is the same one."""
    async with side(kind) as here:
        run, asked = await here.ask("bread", session="source")
        await here.supervisor.decide(asked.id, Approve(by="olga"))
        await run.outcome()
        entries = await here.supervisor.find_entries("source")
        decided = next(place for place, row in enumerate(entries, 1) if isinstance(row.event, e.ApprovalDecided))
        for _ in range(2):
            fork = await here.supervisor.fork("source", before=decided, new="copy", by="olga")
            assert (fork.session, fork.source, len(fork.later_calls)) == ("copy", "source", 1)
        with pytest.raises(SessionConflict):
            await here.supervisor.fork("source", before=decided - 1, new="copy", by="olga")
        async with here.supervisor.watch_inbox() as inbox:
            pending = await anext(inbox)
        assert (pending.session, pending.arguments) == ("copy", asked.arguments)


# -- reading -----------------------------------------------------------------------------------------------------------


async def test_sessions_approvals_and_entries_are_listed(kind):
    """By their filters, from a cursor on."""
    async with side(kind) as here:
        for number in range(5):
            await (await here.supervisor.start(doubling, number, session=f"s{number}", requester="olga")).outcome()
        run, asked = await here.ask()
        every = await here.supervisor.find_sessions()
        assert [view.id for view in every] == [*(f"s{number}" for number in range(5)), run.session]
        assert [view.id for view in await here.supervisor.find_sessions(limit=2)] == ["s0", "s1"]
        assert [view.id for view in await here.supervisor.find_sessions(is_open=True)] == [run.session]
        assert [view.id for view in await here.supervisor.find_sessions(root="s3")] == ["s3"]
        assert [each.id for each in await here.supervisor.find_approvals(session=run.session)] == [asked.id]
        entries = await here.supervisor.find_entries(run.session)
        assert [type(row.event) for row in entries[:2]] == [e.SessionCreated, e.RunStarted]
        first = await here.supervisor.find_entries(run.session, limit=1)
        later = await here.supervisor.find_entries(run.session, after=first.next)
        assert (*first, *later)[: len(entries.items)] == entries.items  # its card may have been posted meanwhile
        (waiting,) = (await here.supervisor.get_session(run.session)).pending_approvals
        assert waiting == msgspec.structs.replace(asked, shown=waiting.shown, position=waiting.position)
        assert entries[-1] in await here.supervisor.find_audit()


async def test_approvals_are_found_by_what_was_asked_and_who_decided(kind):
    """A search looks in all states; `by` is the decider, and never the requester."""
    async with side(kind) as here:
        run, asked = await here.ask()
        find = here.supervisor.find_approvals
        (found,) = await find(text=asked.tool, tool=asked.tool, agent=asked.agent)
        assert found.id == asked.id
        for nothing in ({"by": asked.requester}, {"decided": True}, {"text": "nowhere"}):
            assert list(await find(**nothing)) == []
        await here.supervisor.decide(asked.id, Deny(by="olga", reason="no"), channel="web")
        for search in ({"by": "olga"}, {"decided": "denied"}, {"decided": True, "text": asked.tool}):
            (found,) = await find(session=run.session, newest_first=True, **search)
            assert (found.id, found.by, found.channel) == (asked.id, "olga", "web")
        for nothing in ({}, {"before": asked.created_at}, {"decided": False}):
            assert list(await find(**nothing)) == []
        for wrong in ({"text": "?!"}, {"pending": True, "decided": True}, {"before": datetime(2026, 1, 1)}):  # noqa: DTZ001 # it has no zone
            with pytest.raises(InvalidInput):
                await find(**wrong)


async def test_sessions_are_listed_page_by_page(kind):
    """Parents before children, by every filter, and the newest first."""
    async with side(kind) as here:
        for number in range(5):
            await (await here.supervisor.start(doubling, number, session=f"s{number}", requester="olga")).outcome()
        run, asked = await here.ask()
        found, after = [], None
        while True:
            page = await here.supervisor.find_sessions(after=after, limit=2)
            found += [view.id for view in page]
            if (after := page.next) is None:
                break
        assert found == [*(f"s{number}" for number in range(5)), run.session]
        every = await here.supervisor.find_sessions(limit=None, newest_first=True)
        assert [view.id for view in every] == found[::-1]
        (waiting,) = await here.supervisor.find_sessions(status="waiting_approval")
        assert [each.id for each in waiting.pending_approvals] == [asked.id]
        assert [view.id for view in await here.supervisor.find_sessions(is_open=True)] == [run.session]
        assert len(await here.supervisor.find_sessions(agent="doubling")) == 5
        assert [view.id for view in await here.supervisor.find_sessions(root="s3")] == ["s3"]


async def test_a_session_its_tree_and_its_journal_are_read(kind):
    """The tree is of one instant; entries are events."""
    async with side(kind) as here:
        run = await here.supervisor.start(chief, ["bread"], requester="olga")
        async with run.watch_approvals() as watch:
            asked = await anext(watch)
        view = await here.supervisor.get_session(run.session)
        assert (view.status, view.path, [each.id for each in view.pending_approvals]) == (
            *("waiting_approval", ("chief",)),
            [asked.id],
        )
        tree = await here.supervisor.get_tree(run.session)
        assert [each.path[-1] for each in tree.sessions] == ["chief", "noting"]
        assert tree.left_out == 0
        whole = await here.supervisor.find_entries(run.session, tree=True)
        assert [row.event for row in whole][: len(tree.entries)] == [row.event for row in tree.entries]
        own = await here.supervisor.find_entries(run.session, limit=2)
        assert [type(row.event) for row in own] == [e.SessionCreated, e.RunStarted]
        assert own.next is not None
        assert {row.session for row in whole} == {run.session, asked.session}
        assert [each.id for each in await here.supervisor.find_approvals(session=run.session)] == [asked.id]


async def test_a_budget_is_asked_about_raised_and_shown(kind):
    """And what was spent is the same everywhere."""
    async with side(kind) as here:
        run = await here.supervisor.start(
            thinking, 6, session="bounded", requester="olga", budget=Budget(requests=2, usd=9)
        )
        async with run.watch_approvals() as watch:
            first = await anext(watch)
            assert (first.tool, first.arguments) == ("supervisor.budget", {"requests": 4, "usd": 18.0})
            with pytest.raises(InvalidInput):
                await here.supervisor.decide(first.id, Approve(by="olga", arguments={"requests": 1, "usd": 18.0}))
            with pytest.raises(InvalidInput):
                await here.supervisor.decide(first.id, Deny(by="olga", scope="always"))
            await here.supervisor.decide(first.id, Approve(by="olga"))
            second = await anext(watch)
            assert "4 of 4 requests" in second.why
        await here.supervisor.raise_budget("bounded", Budget(requests=50), by="olga")
        assert await run.result() == 6
        assert (await here.supervisor.get_approval(second.id)).status == "withdrawn"
        assert (await here.supervisor.get_session("bounded")).usage.usd == 1.5
        report = await here.supervisor.get_usage("bounded", by="model")
        assert [(part.name, part.spent.requests) for part in report.parts] == [("fake", 6)]
        with pytest.raises(SessionConflict):
            await here.supervisor.start(thinking, 6, session="bounded", requester="olga", budget=Budget(requests=3))


async def test_the_agents_that_can_be_started_are_listed(kind):
    """With what they say of themselves, and the schema of their input."""
    async with side(kind) as here:
        agents = {each.name: each for each in await here.supervisor.find_agents()}
        assert sorted(agents) == [each.name for each in sorted(AGENTS, key=attrgetter("name"))]
        assert agents["noting"].description == "Notes each text; a person is asked for each."
        assert agents["doubling"].input == {"type": "integer"}
        assert agents["asking"].input is None


async def test_owners_and_counts_are_read(kind):
    """What the store and its process have."""
    async with side(kind) as here:
        run, _ = await here.ask()
        assert len(await here.supervisor.find_owners()) == 1
        assert (await here.supervisor.get_session(run.session)).running
        assert list(await here.supervisor.find_jobs(running=False)) == []
        counts = await here.supervisor.get_counts()
        assert (counts.sessions, counts.pending_approvals) == (1, 1)
        await here.supervisor.check()


@pytest.mark.parametrize("read", ["get_session", "get_tree", "get_transcript", "get_run", "find_entries", "send"])
async def test_an_unknown_session_is_not_found(kind, read):
    """Whatever is asked of it."""
    async with side(kind) as here:
        more = {"by": "olga"} if read == "send" else {}
        with pytest.raises(NotFound):
            await getattr(here.supervisor, read)("nowhere", *(["hello"] if read == "send" else []), **more)
        with pytest.raises(NotFound):
            await here.supervisor.get_approval("x" * 42)
        for watch in (here.supervisor.watch_session("nowhere"), here.supervisor.watch_activity("nowhere")):
            with pytest.raises(NotFound):
                async with watch:
                    pass


@pytest.mark.parametrize("cursor", ["0000000000.1", "{store}.999999999"])
async def test_a_cursor_of_another_store_is_refused(kind, cursor):
    """And one from beyond the end; a cursor is given back as it was."""
    async with side(kind) as here:
        await (await here.supervisor.start(doubling, 1, session="one", requester="olga")).outcome()
        store = (await here.supervisor.find_sessions()).cursor.partition(".")[0]
        unknown = cursor.format(store=store)
        with pytest.raises(CursorUnknown):
            await here.supervisor.find_sessions(after=unknown)
        with pytest.raises(InvalidInput):
            await here.supervisor.find_sessions(after="12")
        for watch in (
            here.supervisor.watch_inbox(after=unknown),
            here.supervisor.watch_session("one", after=unknown, stay=True),
        ):
            with pytest.raises(CursorUnknown):
                async with watch:
                    await anext(watch)


# -- watching ----------------------------------------------------------------------------------------------------------


async def test_the_inbox_gives_what_is_pending_then_what_changes(kind):
    """And goes on after a cursor, without a snapshot."""
    async with side(kind) as here:
        run, first = await here.ask("bread", "cake")
        async with here.supervisor.watch_inbox() as inbox:
            assert (await anext(inbox)).id == first.id
            await here.supervisor.decide(first.id, Approve(by="olga"))
            decided, second = await take(inbox, 2)
            assert [(each.id, each.status) for each in (decided, second)] == [
                (first.id, "approved"),
                (second.id, "pending"),
            ]
            cursor = inbox.cursor
        await here.supervisor.decide(second.id, Deny(by="olga"))
        await run.outcome()
        async with here.supervisor.watch_inbox(after=cursor) as inbox:
            assert (await anext(inbox)).status == "denied"


async def test_a_stream_goes_on_where_a_page_was_read(kind):
    """Page.cursor: nothing is missed between the two."""
    async with side(kind) as here:
        page = await here.supervisor.find_approvals()
        _, asked = await here.ask()
        async with here.supervisor.watch_inbox(after=page.cursor) as inbox:
            assert (await anext(inbox)).id == asked.id


async def test_pending_approvals_of_a_session_are_watched(kind):
    """Each once, those below it too, and no others."""
    async with side(kind) as here:
        await here.ask("elsewhere")
        run = await here.supervisor.start(chief, ["bread", "cake"], requester="olga")
        async with here.supervisor.watch_approvals(session=run.session) as watch:
            first = await anext(watch)
            assert first.arguments == {"text": "bread"}
            await here.supervisor.decide(first.id, Approve(by="olga"))
            assert (await anext(watch)).arguments == {"text": "cake"}


async def test_the_end_of_a_run_ends_the_watches_of_its_approvals(kind):
    """It asks nothing more."""
    async with side(kind) as here:
        run, asked = await here.ask()
        async with run.watch_approvals() as watch:
            found = [await anext(watch)]
            await here.supervisor.decide(asked.id, Approve(by="olga"))
            found += [each async for each in watch]
        assert [each.id for each in found] == [asked.id]


async def test_a_session_is_watched_to_its_end(kind):
    """Every entry once, from a cursor on."""
    async with side(kind) as here:
        _, asked = await here.ask(session="seen")
        async with here.supervisor.watch_session("seen") as watch:
            first, _ = await take(watch, 2)
            cursor = watch.cursor
            await here.supervisor.decide(asked.id, Approve(by="olga"))
            rest = [row async for row in watch]
        assert isinstance(first.event, e.SessionCreated)
        assert any(isinstance(row.event, e.RunFinished) for row in rest)
        async with here.supervisor.watch_session("seen", after=cursor) as watch:
            assert [row async for row in watch][: len(rest)] == rest


async def test_giving_up_a_wait_loses_nothing(kind):
    """The next item is the one that was waited for."""
    async with side(kind) as here, here.supervisor.watch_inbox() as inbox:
        with anyio.move_on_after(0.05):
            await anext(inbox)
        _, asked = await here.ask()
        assert (await anext(inbox)).id == asked.id


async def test_a_look_shows_the_activity_of_sessions(kind):
    """Of one tree, or of all that are open."""
    async with side(kind) as here:
        run, asked = await here.ask()
        for named in (None, run.session):
            async with here.supervisor.watch_activity(named) as watch:
                (doing,) = await watch.look(wholly=True)
                assert (doing.session, doing.asks, doing.doing[0].approval.id) == (run.session, True, asked.id)


async def test_a_look_shows_so_many_sessions_and_its_instant(kind):
    """The first ones, and all others by further pages; everything later comes after its cursor."""
    async with side(kind) as here:
        here.supervisor.most_items = 1
        run = await here.supervisor.start(chief, ["bread"], requester="olga")
        async with run.watch_approvals() as watch:
            asked = await anext(watch)
        async with here.supervisor.watch_activity() as activities:
            for limit, count in [(1, 1), (2, 2), (None, 2)]:
                page = await activities.look(limit=limit, wholly=True)
                assert [each.session for each in page] == [run.session, asked.session][:count]
                assert (page.next is None) == (limit != 1)
            first = await activities.look(limit=1)
            assert [each.session for each in await activities.look(after=first.next)] == [asked.session]
        await here.supervisor.decide(asked.id, Approve(by="olga"))
        async with here.supervisor.watch_inbox(after=page.cursor) as inbox:
            assert (await anext(inbox)).id == asked.id


async def test_leaving_ends_open_watches(kind):
    """Without an error."""
    async with anyio.create_task_group() as tasks:
        ended = anyio.Event()
        async with side(kind) as here:
            opened = anyio.Event()

            async def watch() -> None:
                async with here.supervisor.watch_inbox() as inbox:
                    opened.set()
                    async for _ in inbox:
                        pass
                ended.set()

            tasks.start_soon(watch)
            await opened.wait()
        await ended.wait()


@pytest.mark.parametrize("most", [5000, 1])
async def test_a_tree_is_read_at_once(kind, most):
    """Its sessions, whole journals, and the instant; also where one answer does not hold all of it."""
    async with side(kind) as here:
        here.supervisor.most_items = here.supervisor.most_entries = most
        run = await here.supervisor.start(chief, ["bread"], requester="olga")
        async with run.watch_approvals() as watch:
            asked = await anext(watch)
        tree = await here.supervisor.get_tree(run.session, entries=None)
        assert [view.id for view in tree.sessions] == [run.session, asked.session]
        end = int(tree.cursor.partition(".")[2])  # a card may be posted afterwards
        assert (list(tree.entries), tree.left_out) == (here.local.store.rows(0, end), 0)
        part = await here.supervisor.get_tree(run.session, entries=0)
        assert ({row.session for row in part.entries}, part.left_out) == ({run.session}, 1)


async def test_a_tree_has_journals_longer_than_a_page(kind):
    """Also one that a further request reads."""
    async with side(kind) as here:
        here.supervisor.most_entries = 1
        await (await here.supervisor.start("listening", 1001, session="loud", requester="olga")).outcome()
        tree = await here.supervisor.get_tree("loud", entries=None)
        end = int(tree.cursor.partition(".")[2])
        assert (list(tree.entries), tree.left_out) == (here.local.store.rows(0, end), 0)


async def never(*said):
    """A text without an id of its sender is not looked up."""
    raise AssertionError(said)


@pytest.mark.parametrize("text", ["yes", "yes {0.id}", "approve all", "approve {0.id}"])
async def test_chat_commands_need_nothing_but_the_seam(kind, text):
    """A12: what they read and do goes through the Supervisor, so that every implementation can use them. If a
    tree's process is busy, a decision counts all the same, and is confirmed later."""
    async with side(kind) as here:
        run = await here.supervisor.start(chief, ["bread"], requester="olga")
        async with run.watch_approvals() as watch:
            asked = await anext(watch)
        said = Chat(run.session, text.format(asked), shown=[asked.id])
        heard = await chat(here.supervisor, None, said, "olga", datetime.now(UTC), never)
        (result,) = heard.results
        assert (result.approval, result.is_accepted) == (asked.id, True)
        assert await run.result() == ["noted bread"]
