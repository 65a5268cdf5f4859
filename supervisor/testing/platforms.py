"""The scenes of every channel, over any chat platform: one of ours, or a `Platform` of another author.

    class MemoryBench(PlatformBench):
        name = "memory"
        def make_platform(self): return MemoryPlatform(self.board)
        def cards(self): ...

Rules
- `ChatChannel` drives the platform, as it does in a daemon.
- What people do is delivered as the platform sends it: `sent` makes that of an act.
"""

from abc import abstractmethod
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
from msgspec.structs import replace

from supervisor.channels.chat.acts import Act, Place, Press, Replied
from supervisor.channels.chat.cards import Asking
from supervisor.channels.chat.driver import ChatChannel
from supervisor.channels.chat.filling import Fill
from supervisor.channels.chat.platform import Chat
from supervisor.channels.chat.presses import FORMS
from supervisor.channels.chat.verbs import Platform
from supervisor.core.approvals.people import People
from supervisor.seam.channel import Channel
from supervisor.seam.supervisor import StoreSupervisor
from supervisor.testing.channels import PATIENCE_SECONDS, CardSeen, ChannelBench


class PlatformBench(ChannelBench):
    """A chat platform in a test. `home`: the conversation for cards."""

    home: Place = Place("1")

    @abstractmethod
    def make_platform(self) -> Platform:
        """Return the platform as a new process sees it: the same messages stand on it."""

    def questions(self) -> Sequence[CardSeen]:
        """Return the messages that ask for a text, the oldest first; for a platform without forms."""
        return ()

    def sent(self, act: Act) -> Any:
        """Return what the platform sends when a person acts. By default it sends the act itself."""
        return act

    def make(self, people: People) -> Channel:
        return ChatChannel(self.make_platform(), self.home, Asking(name=self.name, people=people))

    async def press(self, channel: Channel, seen: CardSeen, code: str, identity: str, text: str = "") -> None:
        press = Press(code=code, approval=seen.approval, user=identity, card=seen.card, place=self.home)
        asked = {each.card for each in self.questions()}
        await self._deliver(channel, press)
        assert isinstance(channel, ChatChannel)
        if code in FORMS and channel.platform.questions is None:
            await self._deliver(channel, replace(press, text=text))
        elif code in FORMS:
            await self._answer(channel, press, asked, text)

    async def _answer(self, channel: Channel, press: Press, asked: set[str], text: str) -> None:
        """Reply to the question for a text; of the first question of a form, choose the text in its place."""
        question = await self._question(asked)
        for code in question.codes:
            if code.endswith(f".{Fill.JSON}"):
                await self._deliver(channel, replace(press, code=code, card=question.card))
                question = await self._question({*asked, question.card})
        reply = Replied(
            code=press.code, approval=press.approval, user=press.user, text=text, card=question.card, place=self.home
        )
        await self._deliver(channel, reply)

    async def _question(self, asked: set[str]) -> CardSeen:
        """Wait for a question that was not asked before."""
        with anyio.fail_after(PATIENCE_SECONDS):
            while not (found := [each for each in self.questions() if each.card not in asked]):  # noqa: ASYNC110 # the platform tells no one
                await anyio.sleep(0.01)
        return found[0]

    async def forge(self, channel: Channel, seen: CardSeen, code: str, identity: str) -> None:
        """A changed client can send codes that no button has."""
        for forged in ("approve.7", "yes", f"{code}x"):
            await self._deliver(
                channel, Press(code=forged, approval=seen.approval, user=identity, card=seen.card, place=self.home)
            )

    @asynccontextmanager
    async def open_chat(self, supervisor: StoreSupervisor) -> AsyncGenerator[Chat, None]:
        chat = self.make_platform().make_chat(lambda: supervisor)
        assert chat is not None, "the platform has no conversations: say so in `cannot`"
        yield chat

    async def _deliver(self, channel: Channel, act: Act) -> None:
        assert isinstance(channel, ChatChannel)
        await channel.take(self.sent(act))
