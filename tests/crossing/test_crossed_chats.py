"""What stands in Slack, Discord and Telegram is known to today's code: cards, presses, forms that were begun."""

from contextlib import asynccontextmanager
from copy import deepcopy

import crossing_agents
import pytest
from chat_platforms import PLATFORMS, quiet, until
from crossed import CROSSINGS, document, opened, unpacked

from supervisor import Approve

pytestmark = pytest.mark.anyio
FIELDS = {"channel": "beta", "version": "1.2.3", "on": "2026-11-24", "copies": "2", "loud": "yes"}
RELEASE = "beta 1.2.3 2026-11-24 2 True"
EDITED = '{"target": "edited", "count": 1}'


@pytest.fixture(params=CROSSINGS)
def crossing(request):
    crossing_agents.effects.clear()
    return request.param


class World:
    """A platform as it was recorded, and today's supervisor."""

    def __init__(self, platform, supervisor, forms, approvals):
        self.platform, self.supervisor, self.forms, self.approvals = platform, supervisor, forms, approvals

    def card(self, session):
        """Return the card of the approval that a tree waited for when it was recorded."""
        return self.platform.cards()[self.approvals[session]]

    async def press(self, session, code):
        await self.platform.press(self.card(session), code)

    def has_buttons(self, session):
        return bool(self.platform.codes(self.card(session)))

    def count(self):
        return self.platform.count(self.platform.edits), self.platform.count(self.platform.posts)


@pytest.fixture
def world(crossing, tmp_path):
    """Open a platform and its store with today's code, as a new process does."""

    @asynccontextmanager
    async def opens(name, *, resumes=True, **options):
        platform, recorded = PLATFORMS[name](), document(crossing, name)
        platform.load(deepcopy(recorded["state"]))
        path = unpacked(crossing, name, tmp_path)
        async with opened(path) as supervisor:
            approvals = await supervisor.find_approvals(pending=False, limit=None)
            waited = {each.root_session: each.id for each in approvals}
        with platform.serving:
            channel = platform.open(**options)
            async with opened(path, channels=[channel], people=platform.people) as supervisor:
                if resumes:
                    await supervisor.resume_all()
                    await until(lambda: not platform.codes(platform.cards()[waited["elsewhere"]]))
                    await quiet(platform)
                yield World(platform, supervisor, recorded["forms"], waited)

    return opens


@pytest.mark.parametrize("name", PLATFORMS)
async def test_recorded_cards_are_edited_once_and_not_posted_again(world, crossing, name):
    """They look different now. Each is edited once, a few a second, and works meanwhile. A change that leaves the looks
    of cards as they are edits none."""
    before = PLATFORMS[name]()
    before.load(document(crossing, name)["state"])
    async with world(name) as here:
        await here.press("card", "approve.0")
        assert await (await here.supervisor.get_run("card")).result() == ["ok", "deployed a"]
        old = {key: card for key, card in before.cards().items() if before.codes(card)}
        calls = [key for key in old if (await here.supervisor.get_approval(key)).kind == "call"]
        await until(lambda: all(here.platform.cards()[key] != old[key] for key in calls))
        await quiet(here.platform)
        edits, posts = here.count()
        assert (edits <= len(old) + len({"card"}), posts) == (True, 0)


@pytest.mark.parametrize("name", PLATFORMS)
async def test_recorded_cards_are_pressed_and_retired(world, name):
    """Calls, a call in a tree, a choice, and a call with a secret: each effect once, and no card is posted again."""
    async with world(name) as here:
        for session, code in (
            ("card", "approve.0"),
            ("tree", "approve.0"),
            ("secret", "deny"),
            ("choices", "choose.0"),
        ):
            run = await here.supervisor.get_run(session)
            await here.press(session, code)
            assert (await run.outcome()).kind == "succeeded"
            await until(lambda session=session: not here.has_buttons(session))
        assert (await (await here.supervisor.get_run("choices")).result()) == "staging"
        await quiet(here.platform)
        assert here.count()[1] == 0
    assert sorted(crossing_agents.effects) == ["deploy a 1", "deploy d 1"]


@pytest.mark.parametrize("name", PLATFORMS)
async def test_forms_that_were_begun_are_completed(world, name):
    """Edited arguments, a reason, an answer, fields: what a person had open before the upgrade can be sent."""
    is_telegram = name == "telegram"
    async with world(name) as here:
        runs = {session: await here.supervisor.get_run(session) for session in ("edit", "why", "answer", "fields")}
        await here.platform.send(here.forms["edit"], EDITED if is_telegram else {"target": "edited"})
        await here.platform.send(here.forms["why"], "not on a Friday")
        await here.platform.send(here.forms["answer"], "production")
        if is_telegram:  # there the fields of a form are in memory; a person begins again
            here.platform.press_lost(here.forms["fields"])
            await until(lambda: here.platform.fake.alerts)
            here.forms["fields"] = await here.platform.open_form(here.approvals["fields"], "reply")
        await here.platform.send(here.forms["fields"], FIELDS)
        values = {session: await run.result() for session, run in runs.items()}
        for session in runs:
            await until(lambda session=session: not here.has_buttons(session))
    assert (values["edit"], values["answer"], values["fields"]) == (["ok", "deployed edited"], "production", RELEASE)
    assert (values["why"][0], "not on a Friday" in values["why"][1]) == ("denied", True)
    assert crossing_agents.effects == ["deploy edited 1"]


@pytest.mark.parametrize("name", PLATFORMS)
async def test_a_recorded_card_opens_a_form(world, name):
    """A question that waits is answered by the button of its card."""
    async with world(name) as here:
        run = await here.supervisor.get_run("question")
        form = await here.platform.open_form(here.approvals["question"], "reply")
        await here.platform.send(form, "staging")
        assert await run.result() == "staging"


@pytest.mark.parametrize("name", ["slack", "discord"])
async def test_a_card_of_which_no_process_knows_is_found(world, name):
    """The process died before it could note it: it is not posted again, it works, and it loses its buttons."""
    async with world(name) as here:
        run = await here.supervisor.get_run("found")
        await here.press("found", "approve.0")
        assert await run.result() == ["ok", "deployed f"]
        await until(lambda: not here.has_buttons("found"))
        assert here.count()[1] == 0


@pytest.mark.parametrize("name", PLATFORMS)
async def test_a_press_before_the_run_is_resumed_is_kept(world, name):
    """R2: the decision counts when a process runs the session."""
    async with world(name, resumes=False) as here:
        await here.press("card", "approve.0")
        run = await here.supervisor.resume("card")
        assert await run.result() == ["ok", "deployed a"]
    assert crossing_agents.effects == ["deploy a 1"]


@pytest.mark.parametrize("name", PLATFORMS)
async def test_a_decision_elsewhere_retires_a_recorded_card(world, name):
    """The decision of a terminal, or of the web."""
    async with world(name) as here:
        await here.supervisor.decide(here.approvals["card"], Approve(by="ana"))
        await until(lambda: not here.has_buttons("card"))
        assert await (await here.supervisor.get_run("card")).result() == ["ok", "deployed a"]
    assert crossing_agents.effects == ["deploy a 1"]
