"""Conversations in Discord: a thread for each session, and slash commands to start, say and stop."""

import anyio
import pytest
from fake_discord import FakeDiscord, serving
from platform_scenes import ANA, EVE, STRANGER, deployer, opened, ran, until
from test_discord import channel, give, is_told_alone

from supervisor import Context, MemoryStore, agent
from supervisor.core.events import CommandRefused

pytestmark = pytest.mark.anyio


@pytest.fixture
def discord():
    with serving(FakeDiscord()) as fake:
        yield fake


@agent
async def echo(ctx: Context, text: str) -> None:
    await ctx.send(text)


GATES: list[anyio.Event] = []


@agent
async def slow(ctx: Context, text: str) -> None:
    await GATES.pop().wait()


async def begin(chat, discord, text):
    """Start the agent, and return its thread."""
    assert is_told_alone(await give(chat, discord.command("start", ANA, text=text)))
    return list(discord.threads)[-1]


def said(discord):
    """Return (thread, text) of each piece that was posted."""
    pieces = [each for each in discord.messages.values() if "said:" in str(each.get("embeds"))]
    return [(each["channel_id"], each["embeds"][0]["description"]) for each in pieces]


async def test_a_session_has_a_thread_in_which_people_decide_and_talk(discord):
    """Its card stands there, "yes" of an entitled person decides, and others in the place see the message."""
    chat = channel(discord, agent=deployer)
    async with opened(chat, platform="discord") as supervisor:
        thread = await begin(chat, discord, "x")
        assert (discord.threads[thread], discord.members) == ("x", [(thread, ANA)])
        (asked,) = await until(lambda: [each for each in supervisor.store.find_approvals() if each.shown])
        assert (asked.root_session, [each["channel_id"] for each in discord.messages.values()]) == (
            f"discord-{thread}",
            ["77", thread],
        )
        assert is_told_alone(await give(chat, discord.command("say", EVE, place=thread, text="yes")))
        assert ran == []
        assert is_told_alone(await give(chat, discord.command("say", ANA, place=thread, text="yes")))
        await until(lambda: ran)
        await (await supervisor.get_run(asked.session)).outcome()
        assert (await give(chat, discord.command("say", ANA, place=thread, text="again")))["data"].get("flags") is None
        await until(lambda: supervisor.store.find_approvals())
        assert is_told_alone(await give(chat, discord.command("stop", ANA, place=thread)))
        assert (await supervisor.get_session(asked.session)).ended_at is not None


async def test_a_sessions_messages_are_in_its_thread_once(discord):
    """R9: also if an answer of Discord was lost, and for a process that comes later; all see what is said to it."""
    chat, store, text = channel(discord, agent=echo), MemoryStore(), "word [good](https://evil.example) @everyone "
    async with opened(chat, store, platform="discord"):
        thread = await begin(chat, discord, "hello")
        await until(lambda: said(discord) == [(thread, "hello")])
        lost = []

        def taken(method, when):
            if (method, when, len(said(discord))) == ("POST", "after", 3) and not lost:
                lost.append(True)
                discord.unwell = 1

        discord.taken = taken
        shown = await give(chat, discord.command("say", ANA, place=thread, text=text * 300))
        assert (shown["type"], shown["data"].get("flags"), shown["data"]["allowed_mentions"]) == (
            4,
            None,
            {"parse": []},
        )
        await until(lambda: sum(each.count("word") for _, each in said(discord)) == 300)
    calls = len(discord.calls)
    async with opened(channel(discord, agent=echo), store, platform="discord") as supervisor:
        await until(lambda: ("GET", f"/channels/{thread}/messages") in discord.calls[calls:])
        await supervisor.send(f"discord-{thread}", "bye", by="ana")
        await until(lambda: said(discord)[-1] == (thread, "bye"))
    texts = [each for _, each in said(discord)]
    assert (lost, sum(each.count("word") for each in texts)) == ([True], 300)
    assert "](" not in "".join(texts)


async def test_the_bot_types_in_the_thread_while_its_session_works(discord):
    """Discord takes the sign away after some seconds, so it is shown again."""
    chat = channel(discord, agent=slow)
    chat.conversations.chat.sign_lasts = 0.01
    GATES.append(gate := anyio.Event())
    async with opened(chat, platform="discord") as supervisor:
        thread = await begin(chat, discord, "hello")
        await until(lambda: discord.typing[1:])
        gate.set()
        await (await supervisor.get_run(f"discord-{thread}")).outcome()
    assert {*discord.typing} == {thread}


@pytest.mark.parametrize("user", [EVE, STRANGER])
async def test_only_an_operator_gets_a_thread(discord, user):
    """A4: another person is told so, and no thread is left. The audit trail has a person whom the supervisor knows."""
    chat = channel(discord, agent=echo)
    async with opened(chat, platform="discord") as supervisor:
        answer = await give(chat, discord.command("start", user, text="x"))
        assert is_told_alone(answer)
        assert user == STRANGER or "Not started: " in answer["data"]["content"]
        assert (list(await supervisor.find_sessions()), discord.threads, discord.messages) == ([], {}, {})
        refused = [row.event for row in supervisor.store.rows(0) if isinstance(row.event, CommandRefused)]
        assert [each.act for each in refused] == ([] if user == STRANGER else ["start agents"])


@pytest.mark.parametrize(("refused", "begins"), [("/channels/77/messages", 0), ("/channels/1002/thread-members", 1)])
async def test_a_person_is_told_if_discord_opens_no_thread(discord, refused, begins):
    """Nothing is started then; that the person is not in the thread stops nothing. A chat word starts nothing."""
    chat = channel(discord, agent=echo)
    async with opened(chat, platform="discord") as supervisor:
        assert is_told_alone(await give(chat, discord.command("start", ANA, text="approve all")))
        assert (discord.threads, discord.messages) == ({}, {})
        discord.refused = refused
        assert is_told_alone(await give(chat, discord.command("start", ANA, text="x")))
        assert (len(await supervisor.find_sessions()), discord.members) == (begins, [])


@pytest.mark.parametrize("agent_", [echo, None])
async def test_words_outside_a_thread_of_a_session_are_answered(discord, agent_):
    """Also where there is no agent to talk to: nothing is dropped silently."""
    chat = channel(discord, agent=agent_)
    async with opened(chat, platform="discord") as supervisor:
        assert is_told_alone(await give(chat, discord.command("say", ANA, place="77", text="x")))
        assert is_told_alone(await give(chat, discord.command("stop", ANA, place="77")))
        assert list(await supervisor.find_sessions()) == []
