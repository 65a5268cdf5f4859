"""A command that changes something reads before it, not after it: a change that counts is never told as a failure."""

from contextlib import asynccontextmanager

import anyio

from supervisor import Context, MemoryStore, ServerUnavailable, agent, open_supervisor, tool
from supervisor.cli.deciding import approve
from supervisor.cli.messages import send
from supervisor.cli.options import PersonPlace


@tool
async def note(text: str) -> str:
    return text


@agent
async def asks(ctx: Context, text: str) -> str:
    return (await ctx.call(note, text)).content


class LostAfterwards:
    """A supervisor whose connection is lost as soon as a command has been carried out."""

    def __init__(self, supervisor):
        self._supervisor = supervisor
        self._is_lost = False

    def __getattr__(self, name):
        if self._is_lost:
            raise ServerUnavailable("the connection is lost", maybe_done=False)
        return getattr(self._supervisor, name)

    async def get_approval(self, approval):
        self.find_approvals  # noqa: B018 # is the connection lost?
        (asked,) = await self._supervisor.find_approvals()
        return asked

    async def decide(self, approval, decision, *, channel=None):
        asked = await self.get_approval(approval)
        self._is_lost = True
        return await self._supervisor.decide(asked.id, decision, channel=channel)

    async def chat(self, *given, **options):
        self._is_lost = True
        return await self._supervisor.chat(*given, **options)


class Losing(PersonPlace):
    """The place of a supervisor whose connection is lost after a command."""

    @asynccontextmanager
    async def open(self, **options):
        async with open_supervisor(MemoryStore()) as supervisor:
            await supervisor.start(asks, "x", session="s")
            with anyio.fail_after(30):
                while not await supervisor.find_approvals():
                    await anyio.sleep(0.01)
            yield LostAfterwards(supervisor)


def test_a_decision_that_counts_is_told_with_its_rule(capsys):
    """The rule, its tool and its pattern are known without another read."""
    assert approve("id", scope="session", place=Losing(by="ana")) == 0
    told = capsys.readouterr()
    assert 'note: {"text":"x"}' in told.err
    assert "supervisor rules revoke" in told.err


def test_a_message_that_was_sent_is_told(capsys):
    """With the name of its agent."""
    assert send("s", "hello", place=Losing(by="ana")) == 0
    assert "asks [s]" in capsys.readouterr().out
