"""Questions of an ACP agent to a person (`elicitation/create`), and its words about a request."""

import anyio
import pytest
from acp_scenes import allow, ask, asked, deny, new_home, opened, real_backend, say
from dying import fork

from supervisor import Answer, MemoryStore
from supervisor.agents.acp.permissions import read
from supervisor.agents.question_forms import Wanted, form_of, type_of
from supervisor.core.declarations.schemas import schema_of

__all__ = ["new_home", "real_backend"]
pytestmark = pytest.mark.anyio
FORM = {
    "type": "object",
    "properties": {
        "store": {"type": "string", "oneOf": [{"const": "a", "title": "A file"}, {"const": "b", "title": "A server"}]},
        "size": {"type": "integer", "minimum": 1},
        "parts": {"type": "array", "items": {"type": "string", "enum": ["api", "page"]}},
    },
    "required": ["store"],
}


def question(form=FORM, message="Which store?", **more):
    params = {"sessionId": "s", "mode": "form", "message": message, "requestedSchema": form}
    return {"do": "request", "method": "elicitation/create", "params": params | more}


def answers(home):
    """Return what the agent was answered."""
    return [each.get("result", each.get("error")) for each in home.heard if "method" not in each]


async def test_an_agent_is_told_that_it_may_ask_people_by_forms(home):
    async with opened() as supervisor:
        await (await supervisor.start(home.agent([say("ok")]), "go")).result()
    assert home.heard[0]["params"]["clientCapabilities"]["elicitation"] == {"form": {}}


async def test_a_form_is_a_question_and_the_answer_is_its_content(home):
    """What is not required may be left out."""
    async with opened() as supervisor:
        run = await supervisor.start(home.agent([question(), say("ok")]), "go")
        (found,) = await asked(supervisor)
        assert (found.kind, found.options) == ("question", ())
        assert "Which store?" in found.question
        await supervisor.decide(found.id, Answer(by="ana", value={"store": "b", "parts": ["api"]}))
        assert await run.result() == "ok"
    assert answers(home) == [{"action": "accept", "content": {"store": "b", "parts": ["api"]}}]


async def test_a_person_who_declines_gives_no_content_and_the_agent_reads_the_reason(home):
    async with opened() as supervisor:
        run = await supervisor.start(home.agent([question()], [say("then not")]), "go")
        (found,) = await asked(supervisor)
        await deny(supervisor, found, "ask me later")
        assert await run.result() == "then not"
    assert answers(home) == [{"action": "decline"}]
    assert "ask me later" in home.prompts[1]


@pytest.mark.parametrize(("choice", "action"), [("accept", "accept"), ("decline", "decline")])
async def test_a_form_without_fields_asks_for_a_yes(home, choice, action):
    async with opened() as supervisor:
        run = await supervisor.start(home.agent([question({"type": "object"}), say("ok")]), "go")
        (found,) = await asked(supervisor)
        await supervisor.decide(found.id, Answer(by="ana", value=choice))
        await run.result()
    assert [each["action"] for each in answers(home)] == [action]


REFUSED = {
    "url": question(mode="url", url="https://example.org", elicitationId="1"),
    "type": question({"type": "object", "properties": {"at": {"type": "object"}}}),
    "schema": question(form="none"),
    "no session": {"do": "request", "method": "elicitation/create", "params": {"mode": "form", "message": "?"}},
}


@pytest.mark.parametrize("case", REFUSED)
async def test_a_question_that_no_form_can_ask_is_answered_with_an_error(home, case):
    async with opened() as supervisor:
        run = await supervisor.start(home.agent([REFUSED[case], say("ok")]), "go")
        assert await run.result() == "ok"
    assert [each["code"] for each in answers(home)] == [-32602]


BEYOND = [
    {"type": "integer", "maximum": 10**19},
    {"type": "number", "maximum": 10**400},
    {"type": "string", "minLength": -1},
    {"type": "string", "maxLength": 1e300},
]


@pytest.mark.parametrize("schema", BEYOND)
async def test_a_form_with_a_bound_that_no_type_can_have_is_answered_with_an_error(home, schema):
    async with opened() as supervisor:
        run = await supervisor.start(
            home.agent([question({"type": "object", "properties": {"it": schema}}), say("ok")]), "go"
        )
        assert await run.result() == "ok"
    assert [each["code"] for each in answers(home)] == [-32602]


@pytest.mark.parametrize(
    ("schema", "is_bounded"),
    [
        ({"type": "string", "enum": ["a", "b"], "minLength": 1}, {}),
        ({"type": "array", "items": {"enum": ["a"]}, "minItems": 1.0, "minimum": 5}, {"minItems": 1}),
        ({"type": "string", "minimum": 1, "maxItems": 2}, {}),
        ({"type": "string", "minLength": 1.0, "maxLength": 2.5}, {"minLength": 1, "maxLength": 2}),
        ({"type": "integer", "minLength": 1, "minimum": 0.5, "maximum": 9.0}, {"minimum": 1, "maximum": 9}),
        ({"type": "number", "minimum": 0.5, "maximum": 9}, {"minimum": 0.5, "maximum": 9}),
        ({"type": "boolean", "minimum": 1}, {}),
    ],
)
def test_a_value_is_bounded_by_the_words_that_fit_its_type(schema, is_bounded):
    form = schema_of(form_of([Wanted("it", type_of(schema))]))
    shown = form["$defs"]["Answers"]["properties"]["it"]
    assert {word: bound for word, bound in shown.items() if word.startswith(("min", "max"))} == is_bounded


async def test_a_cancel_answers_a_question(home):
    async with opened() as supervisor:
        run = await supervisor.start(home.agent([question()]), "go")
        await asked(supervisor)
        await supervisor.cancel(run.session, by="ana")
        await run.outcome()
    assert {"action": "cancel"} in answers(home)


async def test_an_answer_that_comes_after_a_death_is_told_to_the_next_process_and_given_when_it_asks_again(home):
    agent, store = home.agent([question()], [question(), say("ok")]), MemoryStore()
    async with opened(store) as supervisor:
        run = await supervisor.start(agent, "go", session="s")
        (found,) = await asked(supervisor)
        left = fork(store)
        await supervisor.cancel(run.session, by="ana")
        await run.outcome()
    async with opened(left) as supervisor:
        run = await supervisor.resume("s")
        await supervisor.decide(found.id, Answer(by="ana", value={"store": "a"}))
        assert await run.result() == "ok"
        assert not (await supervisor.find_approvals()).items
    assert 'a person has answered: {"store":"a"}' in home.prompts[1]
    assert answers(home)[-1] == {"action": "accept", "content": {"store": "a"}}


async def test_texts_of_a_request_are_the_agents_words_and_no_argument(home):
    """They change neither the digest, nor which request is the same."""
    content = [{"type": "content", "content": {"type": "text", "text": "It needs the network."}}]
    call = {"do": "call", "id": "c1", "title": "run rm x", "input": {"command": "rm x"}, "content": content}
    found = []
    async with opened() as supervisor:
        for turn in ([call, ask()], [ask()]):
            run = await supervisor.start(home.agent(turn), "go")
            (each,) = await asked(supervisor)
            found.append(each)
            await allow(supervisor, each)
            await run.result()
            await anyio.sleep(0)
    told, silent = found
    assert (told.because, silent.because) == ("It needs the network.", "")
    assert (told.digest, told.arguments) == (silent.digest, silent.arguments)


def test_a_raw_input_with_a_field_of_that_name_keeps_it():
    given = {"the agent's words": "mine", "command": "ls"}
    told = {"toolCallId": "1", "kind": "execute", "rawInput": given}
    told["content"] = [{"type": "content", "content": {"type": "text", "text": "theirs"}}]
    permission = read("fake", told, [])
    assert permission.arguments["the agent's words"] == "mine"
    assert permission.because == "theirs"
