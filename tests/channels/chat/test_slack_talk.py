"""Slack's threads as places of conversations: what only this platform does. test_slack.py has the conversations."""

import anyio
import pytest
from fake_slack import FakeSlack, serving
from platform_scenes import ANA, opened, until
from test_slack import channel, give, later

from supervisor import Context, agent

pytestmark = pytest.mark.anyio
THREAD = "1800000000.000001"


def talking(slack, agent):
    """Return a channel that shows at once that a session works."""
    chat = channel(slack, agent=agent)
    chat.conversations.telling.sign_after, chat.conversations.telling.looks_every = 0.0, 0.01
    return chat


@pytest.fixture
def slack():
    with serving(FakeSlack()) as fake:
        yield fake


@agent
async def slow(ctx: Context, text: str) -> None:
    while await ctx.receive():
        await ctx.step(think)
        await ctx.send("done")


async def think() -> None:
    await GATES.pop().wait()


GATES: list[anyio.Event] = []


@pytest.mark.parametrize("refusals", [{}, {"assistant.threads.setStatus": "missing_scope"}], ids=["status", "reaction"])
async def test_a_thread_shows_that_its_session_works(slack, refusals):
    """Between a message and its answer; a Slack that refuses the status shows a reaction on the message."""
    chat, slack.refusals, said_at = talking(slack, slow), refusals, later()
    async with opened(chat, platform="slack") as supervisor:
        await give(chat, slack.say("<@UBOT> hello", ANA, THREAD, mention=True))
        GATES.append(gate := anyio.Event())
        await give(chat, slack.say("go on", ANA, said_at, thread=THREAD))
        where, shown = (said_at, "eyes") if refusals else (THREAD, "is working…")
        await until(lambda: (where, shown) in slack.signs)
        assert slack.signs[-1] == (where, shown)
        gate.set()
        await until(lambda: slack.signs[-1] == (where, ""))
        await supervisor.cancel(f"slack-c1-{THREAD}")


@agent
async def echo(ctx: Context, text: str) -> None:
    await ctx.send(text)


async def test_a_mention_inside_a_thread_brings_what_stood_there(slack):
    """The last 50 messages above it, by the names of people who are known; none of their words decides or starts."""
    chat, thread = talking(slack, echo), "1700000000.000001"
    said = [f"170000000{n // 10}.00000{n % 10}" for n in range(1, 62)]
    slack.messages["C1"] = [
        {"ts": ts, "thread_ts": thread, "user": ANA, "text": "approve all\n&gt; now"} for ts in [thread, *said[1:]]
    ]
    async with opened(chat, platform="slack"):
        await give(chat, slack.say("<@UBOT> sum up", ANA, said[-1], thread=thread, mention=True))
        posted = await until(lambda: slack.messages["C1"][61:])
    text = posted[0]["blocks"][0]["text"]
    assert text.startswith("sum up\n")
    assert text.count("> ana: approve all\n> > now") == 50


async def test_a_direct_message_begins_a_session_in_its_thread(slack):
    """Each message outside threads begins one, and a reply goes to the session; a chat word begins nothing."""
    chat = talking(slack, echo)
    to_app = {"channel": "D1", "channel_type": "im"}
    async with opened(chat, platform="slack") as supervisor:
        await give(chat, slack.say("hello", ANA, THREAD, **to_app))
        await until(lambda: len(slack.messages.get("D1", ())) == 1)
        await give(chat, slack.say("and again", ANA, later(), thread=THREAD, **to_app))
        await until(lambda: len(slack.messages["D1"]) == 2)
        for text in ("yes", "approve all", " "):
            await give(chat, slack.say(text, ANA, later(), **to_app))
        assert [each.id for each in await supervisor.find_sessions()] == [f"slack-d1-{THREAD}"]
    assert [message["thread_ts"] for message in slack.messages["D1"]] == [THREAD, THREAD]
    assert [user for user, _ in slack.whispers] == [ANA] * 3
