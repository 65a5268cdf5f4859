"""Agents do the same on every Supervisor: messages, memory, questions, approvals and rules."""

import anyio
import pytest
from remote_agents import effects
from scene_agents import (
    costly,
    hearing,
    listening,
    noting_one,
    noting_twice,
    occupied,
    polling,
    remembering,
    resuming,
    ruled,
)

from supervisor import Answer, Approve, Deny, InvalidInput, SessionConflict

pytestmark = [pytest.mark.anyio, pytest.mark.parametrize("kind", ["local", "remote", "temporal"])]


async def asked(run):
    """Return the next approval of a run and those below it."""
    async with run.watch_approvals() as watch:
        return await anext(watch)


# -- messages ----------------------------------------------------------------------------------------------------------


async def test_messages_are_received_in_their_order(opened):
    """R7: each once; the transcript has them, and what the agent has said."""
    async with opened() as here:
        run = await here.supervisor.start(listening, 2, requester="olga")
        sent = [await here.supervisor.send(run.session, text, by="olga") for text in ("one", "two")]
        assert {each.session for each in sent} == {run.session}
        assert await run.result() == ["one", "two"]
        told = [(each.kind, each.text) for each in await here.supervisor.get_transcript(run.session)]
        assert [each for each in told if each[0] == "received"] == [("received", "one"), ("received", "two")]
        assert [each for each in told if each[0] == "sent"] == [("sent", "heard one"), ("sent", "heard two")]


async def test_the_same_message_under_its_id_arrives_once(opened):
    """A sender whose answer was lost sends it again. Another text under the id, or another person's, is refused."""
    async with opened() as here:
        run = await here.supervisor.start(listening, 2, requester="olga")
        first = await here.supervisor.send(run.session, "one", by="olga", message="m1")
        again = await here.supervisor.send(run.session, "one", by="olga", message="m1")
        chatted = await here.supervisor.chat(run.session, "one", by="olga", message="m1")
        assert {first.message, again.message, chatted.sent.message} == {"m1"}
        with pytest.raises(SessionConflict):
            await here.supervisor.send(run.session, "two", by="olga", message="m1")
        with pytest.raises(InvalidInput):
            await here.supervisor.send(run.session, "two", by="olga", message="no id")
        await here.supervisor.send(run.session, "two", by="olga", message="m2")
        assert await run.result() == ["one", "two"]


async def test_a_chat_word_under_its_id_decides_once(opened):
    """Repeated, it tells what it decided, and decides nothing that came since; nor one that had only listed."""
    async with opened() as here:
        run = await here.supervisor.start(noting_twice, "bread", requester="olga")
        first = await asked(run)
        word = {"by": "olga", "shown": [], "message": "m1"}
        assert (await here.supervisor.chat(run.session, "approve all", **word)).kind == "listed"
        word = {"by": "olga", "shown": [first.id], "message": "m2"}
        assert (await here.supervisor.chat(run.session, "yes", **word)).results[0].kind == "accepted"
        second = await asked(run)
        assert second.id != first.id
        for text, message in (("yes", "m2"), ("approve all", "m1")):
            heard = await here.supervisor.chat(run.session, text, by="olga", shown=[second.id], message=message)
            assert all(each.approval == first.id for each in heard.results)
        with pytest.raises(SessionConflict):
            await here.supervisor.chat(run.session, "no", by="olga", shown=[second.id], message="m2")
        with pytest.raises(SessionConflict):
            await here.supervisor.send(run.session, "yes", by="olga", message="m2")
        assert (await here.supervisor.get_approval(second.id)).status == "pending"


async def test_a_message_waits_while_a_call_is_asked_for(opened):
    """It is kept, and says for what it waits. The agent has it afterwards."""
    async with opened() as here:
        run = await here.supervisor.start(occupied, "bread", requester="olga")
        call = await asked(run)
        sent = await here.supervisor.send(run.session, "hello", by="olga")
        assert (sent.kind, [each.id for each in sent.waiting_for]) == ("kept", [call.id])
        await here.supervisor.decide(call.id, Approve(by="olga"))
        assert await run.result() == ["noted bread", "hello"]


async def test_a_message_that_is_not_received_begins_the_next_turn(opened):
    """R7: none is lost."""
    async with opened() as here:
        run = await here.supervisor.start(occupied, "bread", requester="olga")
        call = await asked(run)
        for text in ("now", "later"):
            await here.supervisor.send(run.session, text, by="olga")
        await here.supervisor.decide(call.id, Approve(by="olga"))
        assert await run.result() == ["noted bread", "now"]
        assert await (await here.supervisor.get_run(run.session, number=2)).result() == ["later"]


async def test_a_sub_agent_receives_messages_of_its_own(opened):
    """By its session's id."""
    async with opened() as here:
        run = await here.supervisor.start(hearing, requester="olga")
        while len(views := await here.supervisor.find_sessions(root=run.session)) < 2:
            await anyio.sleep(0.01)
        await here.supervisor.send(views[1].id, "hello", by="olga")
        assert await run.result() == ["hello"]


# -- memory ------------------------------------------------------------------------------------------------------------


async def test_a_turn_knows_the_state_that_earlier_turns_have_saved(opened):
    """Each turn begins without one of its own."""
    async with opened() as here:
        run = await here.supervisor.start(remembering, "one", requester="olga")
        assert await run.result() == ["one"]
        for number, text in enumerate(("two", "three"), 2):
            await here.supervisor.send(run.session, text, by="olga")
            run = await here.supervisor.get_run(run.session, number=number)
            assert await run.result() == ["one", "two", "three"][:number]


async def test_a_retry_goes_on_from_the_state_that_was_saved(opened, monkeypatch):
    """R10: what was done before it is not done again."""
    async with opened() as here:
        run = await here.supervisor.start(resuming, requester="olga")
        assert (await run.outcome()).kind == "failed"
        monkeypatch.setenv("SCENES_WORK", "1")
        assert await (await here.supervisor.retry(run.session, by="olga")).result() == [2, 2]
        assert effects == ["did 0", "did 1"]


async def test_a_retry_keeps_the_results_of_calls(opened, monkeypatch):
    """R10: no person is asked again, and the effect happens once."""
    async with opened() as here:
        run = await here.supervisor.start(costly, requester="olga")
        await here.supervisor.decide((await asked(run)).id, Approve(by="olga"))
        assert (await run.outcome()).kind == "failed"
        monkeypatch.setenv("SCENES_WORK", "1")
        assert await (await here.supervisor.retry(run.session, by="olga")).result() == "noted bread"
        assert effects == ["bread"]


# -- questions, calls and rules ----------------------------------------------------------------------------------------


async def test_an_answer_fits_its_question(opened):
    """One of its choices, a value of its type, any text; or a person declines, and the agent is told why."""
    async with opened() as here:
        run = await here.supervisor.start(polling, requester="olga")
        for wrong, right in [("milk", "tea"), ({"name": "ann"}, {"name": "ann", "number": 3})]:
            question = await asked(run)
            with pytest.raises(InvalidInput):
                await here.supervisor.decide(question.id, Answer(value=wrong, by="olga"))
            assert (await here.supervisor.decide(question.id, Answer(value=right, by="olga"))).status == "answered"
        question = await asked(run)
        await here.supervisor.decide(question.id, Deny(by="olga", reason="no idea"))
        assert await run.result() == ["tea", "ann 3", "denied", "no idea"]


async def test_arguments_are_edited_or_a_call_is_denied(opened):
    """A8: arguments that do not fit decide nothing; the agent is told the reason of a denial."""
    async with opened() as here:
        edited, denied = [await here.supervisor.start(noting_one, "bread", requester="olga") for _ in range(2)]
        call = await asked(edited)
        with pytest.raises(InvalidInput):
            await here.supervisor.decide(call.id, Approve(by="olga", arguments={"other": "cake"}))
        await here.supervisor.decide(call.id, Approve(by="olga", arguments={"text": "cake"}))
        await here.supervisor.decide((await asked(denied)).id, Deny(by="olga", reason="too dear"))
        assert await edited.result() == ["ok", "noted cake"]
        kind, said = await denied.result()
        assert (kind, "too dear" in said, effects) == ("denied", True, ["cake"])


async def test_the_rules_of_an_agent_decide_its_calls(opened):
    """A7: and those of its sub-agents; no person is asked."""
    async with opened() as here:
        run = await here.supervisor.start(ruled, requester="olga")
        assert await run.result() == ["denied", "ok", "noted bread"]
        assert list(await here.supervisor.find_approvals(pending=False, session=run.session)) == []


async def test_a_decision_for_the_session_counts_in_its_tree(opened):
    """The next sub-agent's call runs, and another tree is asked."""
    async with opened() as here:
        run = await here.supervisor.start(noting_twice, "bread", requester="olga")
        await here.supervisor.decide((await asked(run)).id, Approve(by="olga", scope="session"))
        assert await run.result() == ["ok", "noted bread"] * 2
        other = await here.supervisor.start(noting_one, "bread", requester="olga")
        assert (await asked(other)).status == "pending"
        await here.supervisor.cancel(other.session, by="olga")
