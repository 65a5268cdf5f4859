"""Claude Code's questions are questions: a person answers them, and Claude Code reads the answers."""

import msgspec
import pytest
from test_permissions import LIST, Claude, claude

from supervisor import Answer, Approve, Deny, SqliteStore
from supervisor.agents.claude import permissions
from supervisor.agents.claude.permissions import Allowed, Denied, Request, Saved
from supervisor.core import events as e
from supervisor.testing import fast_disk, fresh_process, replaced

pytestmark = pytest.mark.anyio
STORE = {
    "question": "Which store?",
    "header": "Store",
    "multiSelect": False,
    "options": [{"label": "SQLite", "description": "a file"}, {"label": "Postgres", "description": "a server"}],
}
PARTS = {"question": 'Which "parts"?', "multiSelect": True, "options": [{"label": "api"}, {"label": "page"}]}
NAME = {"question": "Which name?"}


@pytest.fixture
def anyio_backend(virtual_backend):
    return virtual_backend


@pytest.fixture(autouse=True)
def _alone(enter):
    enter(fast_disk())
    enter(fresh_process())


@pytest.fixture
def store(tmp_path):
    return lambda: SqliteStore(tmp_path / "state.db")


async def answer(it: Claude, value):
    (asked,) = await it.pending()
    assert (asked.kind, asked.options) == ("question", ())
    assert (await it.supervisor.decide(asked.id, Answer(by="ana", value=value))).kind == "accepted"
    return asked


async def test_one_question_has_its_options_as_choices_with_what_they_mean(store):
    given = {"questions": [STORE]}
    async with claude(store()) as it:
        it.ask("AskUserQuestion", given)
        asked = await answer(it, "Postgres")
        assert asked.choices == ("SQLite", "Postgres")
        assert asked.question == "Store: Which store?\n- SQLite: a file\n- Postgres: a server"
        assert await it.answered() == [Allowed({**given, "answers": {"Which store?": "Postgres"}})]


async def test_several_questions_and_several_options_are_one_form(store):
    given = {"questions": [STORE, PARTS, NAME]}
    async with claude(store()) as it:
        it.ask("AskUserQuestion", given)
        await answer(it, {"Which store?": "SQLite", "Which 'parts'?": ["api", "page"], "Which name?": "tide"})
        answers = {"Which store?": "SQLite", 'Which "parts"?': "api, page", "Which name?": "tide"}
        assert await it.answered() == [Allowed({**given, "answers": answers})]


async def test_a_person_may_decline_and_claude_code_reads_why(store):
    async with claude(store()) as it:
        it.ask("AskUserQuestion", {"questions": [STORE]})
        (asked,) = await it.pending()
        await it.supervisor.decide(asked.id, Deny(by="ana", reason="you decide"))
        (denied,) = await it.answered()
        assert isinstance(denied, Denied)
        assert "you decide" in denied.reason


async def test_an_answer_waits_for_claude_code_over_a_death_and_is_given_once(store):
    given = {"questions": [STORE]}
    async with claude(store(), dies=True) as it:
        it.ask("AskUserQuestion", given)
        await it.pending()
    async with claude(store(), dies=True) as it:
        await answer(it, "SQLite")
    async with claude(store()) as it:
        it.ask("AskUserQuestion", given)
        assert await it.answered() == [Allowed({**given, "answers": {"Which store?": "SQLite"}})]
        it.ask("AskUserQuestion", given)
        assert len(await it.pending()) == 1


BAD = {
    "nothing": {},
    "no list": {"questions": "which?"},
    "no text": {"questions": [{"question": 5}]},
    "no label": {"questions": [{"question": "?", "options": ["a"]}]},
    "equal labels": {"questions": [{"question": "?", "options": [{"label": "a"}, {"label": "a"}]}]},
    "equal questions": {"questions": [NAME, NAME]},
}


@pytest.mark.parametrize("case", BAD)
async def test_a_question_that_cannot_be_asked_is_denied(store, case):
    async with claude(store()) as it:
        it.ask("AskUserQuestion", BAD[case])
        assert await it.pending() == []
        (denied,) = await it.answered()
        assert isinstance(denied, Denied)


async def test_a_question_that_an_earlier_version_stored_as_a_call_is_still_a_call(store):
    given = {"questions": [STORE]}
    with replaced(permissions, "FORM", 0):
        async with claude(store(), dies=True) as it:
            it.ask("AskUserQuestion", given)
            (asked,) = await it.pending()
            assert (asked.kind, asked.arguments) == ("call", given)
    async with claude(store()) as it:
        it.ask("AskUserQuestion", given)
        assert [each.id for each in await it.pending()] == [asked.id]
        await it.supervisor.decide(asked.id, Approve(by="ana"))
        assert await it.answered() == [Allowed(given)]


def test_a_state_of_an_earlier_version_is_read_as_it_was():
    saved = msgspec.convert(
        {"last": 1, "requests": [{"number": 1, "tool": "Bash", "input": LIST, "denied": None}]}, Saved
    )
    assert saved.requests == (Request(1, "Bash", LIST),)
    assert not saved.requests[0].is_question


async def test_the_description_of_a_command_is_the_models_words_and_no_argument(store):
    described = {"command": "make", "description": "Build it", "timeout": 1000}
    async with claude(store()) as it:
        it.ask("Bash", described)
        (asked,) = await it.pending()
        assert (asked.because, asked.arguments) == ("Build it", {"command": "make", "timeout": 1000})
        assert [row.event.because for row in await requests(it)] == ["Build it"]
        await it.supervisor.decide(asked.id, Approve(by="ana", arguments={"command": "make all", "timeout": 1000}))
        assert await it.answered() == [Allowed({**described, "command": "make all"})]


async def requests(it: Claude):
    rows = await it.supervisor.find_entries("s", limit=None)
    return [row for row in rows if isinstance(row.event, e.ToolCallRequested)]


@pytest.mark.parametrize("given", [{}, {"plan": "1. Delete all"}])
async def test_a_plan_is_allowed_once_only(store, given):
    async with claude(store()) as it:
        it.ask("ExitPlanMode", given)
        (asked,) = await it.pending()
        assert [option.scope for option in asked.options] == ["once"]


async def test_an_input_with_a_number_that_json_cannot_hold_is_denied_wherever_it_is(store):
    async with claude(store()) as it:
        it.ask("Edit", {"path": "a", "more": [{"at": float("nan")}]})
        assert await it.pending() == []
        (denied,) = await it.answered()
        assert isinstance(denied, Denied)
        assert "more[0].at is nan" in denied.reason
