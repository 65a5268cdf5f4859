"""One suite for every channel: what people see, what they do, and what goes wrong.

A channel is tested against a platform, or against a fake of one. `ChannelBench` says how: it makes channels, reads the
cards on the platform, delivers presses, and lets the platform fail.

    @pytest.mark.parametrize("scene", SCENES)
    async def test_the_board(scene, board):
        await run_scene(BoardBench(board), scene)

Rules
- A bench is of one platform. `make` is called several times: each channel is that of another process.
- What a channel cannot do is in its table `cannot`, with the reason; such a scene is skipped.
- Scenes wait for what they expect, at most PATIENCE seconds, in real time or on the virtual clock.

The module is longer than 400 lines because a channel of another author finds all that it is asked for in one place.
"""

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from datetime import UTC, datetime
from typing import Any, ClassVar, Final, Literal, TypeVar, get_args
from unittest import SkipTest

import anyio
import msgspec
from msgspec.structs import replace

from supervisor.channels.chat.platform import WRITING, Chat, Piece
from supervisor.channels.chat.telling import Telling
from supervisor.core import events as e
from supervisor.core.approvals.people import People, Person
from supervisor.core.declarations.agent_spec import AgentSpec, agent
from supervisor.core.declarations.foreign_tool import foreign_tool
from supervisor.core.declarations.tool_spec import tool
from supervisor.core.values import Approval, Deny
from supervisor.seam.channel import Channel
from supervisor.seam.context import Context
from supervisor.seam.runs import Run
from supervisor.seam.shown import read_state
from supervisor.seam.supervisor import StoreSupervisor
from supervisor.store.memory import MemoryStore
from supervisor.wiring.app import open_supervisor

PATIENCE_SECONDS: Final = 30.0
SHORT_SECONDS: Final = 0.5  # seconds for which a failing platform is waited for
T = TypeVar("T")
Failure = Literal["429", "500", "refused", "slow", "revoked", "lost"]
"""How a platform fails. lost: it does what it is asked, and then fails."""
OURS: Final = (
    *("where", "edited", "for", "run by", "since", "expires", "session", "approval", "blocked", "also asks", "not set"),
    *("in order", "masked", "why", "note", "the agent says", "input", "question", "choices", "wants"),
    "command (claim)",
)
"""Labels of our lines on a card. An argument may have each of these names."""
TOO_LONG_CHARACTERS: Final = 100_000
"""Characters that no card has room for."""
HOSTILE: Final = "pro\x1b[2Jduction\u202e @everyone <!channel> </b> ``` \x00"


class CardSeen(msgspec.Struct, frozen=True, kw_only=True):
    """A card as it is on the platform. `card`: as `Channel.post` returned it; `codes`: of its live buttons."""

    card: str
    approval: str
    text: str
    codes: tuple[str, ...] = ()


class ChannelBench(ABC):
    """A channel, and the platform that it talks to in a test."""

    name: str
    """The channel's name."""
    identities: tuple[str, str, str] = ("1", "2", "3")
    """Identities on the platform: of two people who may decide everything, and of a stranger."""
    session: str = ""
    """The id of a session that has its place on the platform; for a channel with chats."""
    cannot: ClassVar[Mapping[str, str]] = {}
    """The scenes that the channel cannot play, each with the reason."""

    @abstractmethod
    def make(self, people: People) -> Channel:
        """Return the channel of a new process on the same platform."""

    @abstractmethod
    def cards(self) -> Sequence[CardSeen]:
        """Return the cards on the platform, the oldest first, those without buttons too."""

    async def press(self, channel: Channel, seen: CardSeen, code: str, identity: str, text: str = "") -> None:
        """Deliver a press as the platform does. `text`: what the person writes, if the button asks for it."""
        raise NotImplementedError

    async def forge(self, channel: Channel, seen: CardSeen, code: str, identity: str) -> None:
        """Deliver a press that the platform did not send."""
        raise NotImplementedError

    def open_chat(self, supervisor: StoreSupervisor) -> AbstractAsyncContextManager[Chat]:
        """Open the chat of a new process, for the scene of a text that is being written."""
        raise NotImplementedError

    def said(self) -> Sequence[str]:
        """Return the texts of the messages in the place of `session`, the oldest first."""
        raise NotImplementedError

    def fail(self, how: Failure | None) -> None:
        """Let the platform fail from now on; None: let it work."""
        raise NotImplementedError


@tool
async def deploy(target: str) -> str:
    """Do nothing: the scenes read the journal."""
    return target


@agent
async def deployer(ctx: Context, target: str) -> list[str]:
    """Call a tool that asks."""
    result = await ctx.call(deploy, target)
    return [result.kind, result.content]


async def _names(arguments: Mapping[str, Any]) -> None:
    """Do nothing."""


@agent
async def namer(ctx: Context, target: str) -> str:
    """Call a tool whose arguments are named as our lines."""
    return (await ctx.call(foreign_tool("name", _names), {name: value_of(name) for name in OURS})).content


def value_of(name: str) -> str:
    """Return the value of an argument, which stands nowhere else on a card."""
    return f"value-{OURS.index(name)}-of-{name.replace(' ', '-')}"


@agent
async def asker(ctx: Context) -> str:
    """Ask a question."""
    return await ctx.ask("Which environment?", choices=["staging", "production"])


@agent
async def author(ctx: Context) -> None:
    """Write a text, and say another one after a message."""
    ctx.stream(f"The tide {HOSTILE}")
    await ctx.receive()
    await ctx.send("The tide is low.")


class _Scene(msgspec.Struct, frozen=True):
    """A scene under way: one approval waits, and its card is on the platform."""

    bench: ChannelBench
    supervisor: StoreSupervisor
    channel: Channel
    people: People
    run: Run[Any]
    approval: Approval

    @property
    def card(self) -> CardSeen:
        (found,) = [each for each in self.bench.cards() if each.approval == self.approval.id]
        return found

    async def press(self, code: str, who: int = 0, text: str = "") -> None:
        await self.bench.press(self.channel, self.card, code, self.bench.identities[who], text)

    async def now(self) -> Approval:
        return await self.supervisor.get_approval(self.approval.id)

    async def is_whole(self) -> bool:
        """Whether the journal says that the card shows the approval whole."""
        return (await read_state(self.supervisor, self.approval)).posted()[-1].is_whole

    async def until_dead(self) -> None:
        """Wait until the card has no buttons."""
        await _until(lambda: not self.card.codes)

    async def count_starts(self) -> int:
        rows = await self.supervisor.find_entries(self.run.session, limit=None)
        return sum(isinstance(row.event, e.ToolCallStarted) for row in rows)


async def _until(is_so: Callable[[], object]) -> None:
    with anyio.fail_after(PATIENCE_SECONDS):
        while not is_so():  # noqa: ASYNC110 # the platform is of another author, and tells no one
            await anyio.sleep(0.01)


async def _until_stored(read: Callable[[], Awaitable[T]], is_so: Callable[[T], object]) -> None:
    with anyio.fail_after(PATIENCE_SECONDS):
        while not is_so(await read()):  # noqa: ASYNC110 # as above
            await anyio.sleep(0.01)


@asynccontextmanager
async def _asked(
    bench: ChannelBench, target: str | None = "production", by: AgentSpec[[str], Any] = deployer
) -> AsyncGenerator[_Scene, None]:
    names = zip(("ana", "bob"), bench.identities, strict=False)
    people = People([Person(name=n, roles=("operator",), identities={bench.name: each}) for n, each in names])
    channel = bench.make(people)
    assert channel.name == bench.name, "the bench and its channel have two names"
    async with open_supervisor(MemoryStore(), channels=[channel], people=people) as supervisor:
        run = await (supervisor.start(asker) if target is None else supervisor.start(by, target))
        await _until(bench.cards)
        (approval,) = await supervisor.find_approvals()
        await _until_stored(lambda: supervisor.get_approval(approval.id), lambda now: now.shown or not channel.asks)
        yield _Scene(bench, supervisor, channel, people, run, approval)
        await supervisor.cancel(run.session)


async def _card(bench: ChannelBench) -> None:
    """One card names the agent, the tool and, where people decide, what would run; its buttons decide."""
    async with _asked(bench) as scene:
        assert "deployer" in scene.card.text
        assert "deploy" in scene.card.text
        assert ("production" in scene.card.text) is scene.channel.asks
        assert ({"approve.0", "deny"} <= {*scene.card.codes}) is scene.channel.asks


async def _press(bench: ChannelBench) -> None:
    """A press decides, the call runs once, and the card has no buttons any more."""
    async with _asked(bench) as scene:
        await scene.press("approve.0")
        assert await scene.run.result() == ["ok", "production"]
        await scene.until_dead()
        assert ((await scene.now()).by, await scene.count_starts()) == ("ana", 1)


async def _deny_with_reason(bench: ChannelBench) -> None:
    """The agent gets the reason."""
    async with _asked(bench) as scene:
        await scene.press("explain", text="too early")
        kind, content = await scene.run.result()
        assert (kind, "too early" in content) == ("denied", True)


async def _edit(bench: ChannelBench) -> None:
    """The call runs with the arguments that the person wrote."""
    async with _asked(bench) as scene:
        await scene.press("edit", text='{"target": "staging"}')
        assert await scene.run.result() == ["ok", "staging"]


async def _question(bench: ChannelBench) -> None:
    """A choice is the answer."""
    async with _asked(bench, None) as scene:
        await scene.press("choose.1")
        assert await scene.run.result() == "production"


async def _two_at_once(bench: ChannelBench) -> None:
    """One of two decisions counts (A3)."""
    async with _asked(bench) as scene:
        card = scene.card
        async with anyio.create_task_group() as tasks:
            for code, identity in zip(("approve.0", "deny"), bench.identities, strict=False):
                tasks.start_soon(bench.press, scene.channel, card, code, identity)
        kind = (await scene.run.result())[0]
        assert (kind, await scene.count_starts()) in (("ok", 1), ("denied", 0))


async def _late_press(bench: ChannelBench) -> None:
    """A press on a card of a decided approval changes nothing."""
    async with _asked(bench) as scene:
        card = scene.card
        await scene.supervisor.decide(scene.approval.id, Deny(by="bob"))
        await bench.press(scene.channel, card, "approve.0", bench.identities[0])
        assert (await scene.run.result())[0] == "denied"
        assert await scene.count_starts() == 0


async def _stranger(bench: ChannelBench) -> None:
    """A stranger decides nothing, the audit trail says who tried, and the card keeps its buttons (A4, A15)."""
    async with _asked(bench) as scene:
        await scene.press("approve.0", who=2)
        await _until_stored(
            lambda: scene.supervisor.find_entries(scene.run.session, limit=None),
            lambda rows: any(isinstance(row.event, e.DecisionRefused) for row in rows),
        )
        assert (await scene.now()).status == "pending"
        assert "approve.0" in scene.card.codes


async def _forged(bench: ChannelBench) -> None:
    """A press that the platform did not send decides nothing."""
    async with _asked(bench) as scene:
        await bench.forge(scene.channel, scene.card, "approve.0", bench.identities[0])
        assert (await scene.now()).status == "pending"


async def _replayed(bench: ChannelBench) -> None:
    """A press that arrives twice decides once."""
    async with _asked(bench) as scene:
        card = scene.card
        for _ in range(2):
            await bench.press(scene.channel, card, "approve.0", bench.identities[0])
        assert await scene.run.result() == ["ok", "production"]
        assert await scene.count_starts() == 1


async def _decided_elsewhere(bench: ChannelBench) -> None:
    """A decision on another surface removes the buttons (R3)."""
    async with _asked(bench) as scene:
        await scene.supervisor.decide(scene.approval.id, Deny(by="bob"))
        await scene.until_dead()


async def _hostile_text(bench: ChannelBench) -> None:
    """No character that a screen would obey or draw as nothing reaches the platform."""
    async with _asked(bench, HOSTILE) as scene:
        assert not {*scene.card.text} & {"\x1b", "\u202e", "\x00"}


async def _every_argument(bench: ChannelBench) -> None:
    """Arguments are named as our lines. Each name and each value is readable, and none is where a line of ours was."""
    async with _asked(bench, by=namer) as scene:
        for name in OURS:
            assert value_of(name) in scene.card.text, f"the argument {name!r} is not on the card"
        assert scene.approval.cwd in scene.card.text
        assert await scene.is_whole()


async def _too_long(bench: ChannelBench) -> None:
    """A card that shows a part of the call does not count as whole, and has no button that approves it (A11)."""
    async with _asked(bench, "x" * TOO_LONG_CHARACTERS) as scene:
        assert "approve.0" not in scene.card.codes
        assert not await scene.is_whole()


async def _killed_before_record(bench: ChannelBench) -> None:
    """A process posts a card and dies. The next process finds the card, and posts no second one (R3)."""
    async with _asked(bench) as scene:
        later, now = bench.make(scene.people), datetime.now(UTC)
        card = await later.find_card(scene.approval, scene.approval.created_at, now)
        await later.post(scene.approval, card)
        assert len(bench.cards()) == 1


async def _killed_after_record(bench: ChannelBench) -> None:
    """The next process renews the card that it is given."""
    async with _asked(bench) as scene:
        later = bench.make(scene.people)
        assert await later.post(scene.approval, scene.card.card) == scene.card.card
        assert len(bench.cards()) == 1


async def _writing(bench: ChannelBench) -> None:
    """People read what an agent writes, a later process finds it, and what the agent says replaces it (R9)."""
    async with (
        open_supervisor(MemoryStore()) as supervisor,
        bench.open_chat(supervisor) as chat,
        bench.open_chat(supervisor) as later,
        anyio.create_task_group() as tasks,
    ):
        assert chat.can_edit, "the chat shows no text that is being written: say so in `cannot`"
        chat.shows_after = 0.0
        telling = Telling(chat, "author")
        tasks.start_soon(telling.run, supervisor)
        run = await supervisor.start(author, session=bench.session)
        await _until(lambda: telling.follow(run.session, is_new=True))
        await _until(lambda: "The tide" in "".join(bench.said()))
        assert not {*"".join(bench.said())} & {"\x1b", "\u202e", "\x00"}
        assert await _written(later, run.session)
        await supervisor.send(run.session, "go on")
        await _until(lambda: len(bench.said()) == 1 and "is low" in bench.said()[0])
        await _until_stored(lambda: _written(later, run.session), lambda marks: not marks)
        await _replace(bench, later, run.session)
        tasks.cancel_scope.cancel()


async def _replace(bench: ChannelBench, chat: Chat, session: str) -> None:
    """Show a text, another one in its place, one after it is gone, and none."""

    async def show(text: str, message: str | None) -> str:
        return await chat.show_writing(Piece(session=session, text=text, mark=WRITING, by="author"), message)

    message = await show("one", None)
    assert await show("two", message) == message
    assert "two" in bench.said()[-1]
    for _ in range(2):
        await chat.remove_writing(session, message)
    again = await show("three", message)
    assert ("three" in bench.said()[-1], len(bench.said()), again != message) == (True, 2, True)
    assert await _written(chat, session) == {f"{WRITING}:{again}"}
    await chat.remove_writing(session, again)
    assert len(bench.said()) == 1


async def _written(chat: Chat, session: str) -> set[str]:
    return {mark for mark in await chat.find_said(session) if mark.startswith(f"{WRITING}:")}


def _failing(how: Failure) -> Callable[[ChannelBench], Awaitable[None]]:
    async def play(bench: ChannelBench) -> None:
        """The channel raises or waits while its platform fails. Then it shows the approval, with one card."""
        async with _asked(bench) as scene:
            begun, approval = datetime.now(UTC), replace(scene.approval, id=scene.approval.id[::-1])
            bench.fail(how)
            with anyio.move_on_after(SHORT_SECONDS), suppress(Exception):
                await bench.make(scene.people).post(approval, None)
            bench.fail(None)
            card = await scene.channel.find_card(approval, begun, datetime.now(UTC))
            await scene.channel.post(approval, card)
            assert sum(each.approval == approval.id for each in bench.cards()) == 1

    return play


_PLAYS: Final[Mapping[str, Callable[[ChannelBench], Awaitable[None]]]] = {
    "card": _card,
    "press": _press,
    "deny with reason": _deny_with_reason,
    "edit": _edit,
    "question": _question,
    "two at once": _two_at_once,
    "late press": _late_press,
    "stranger": _stranger,
    "forged": _forged,
    "replayed": _replayed,
    "decided elsewhere": _decided_elsewhere,
    "hostile text": _hostile_text,
    "every argument": _every_argument,
    "too long": _too_long,
    "killed before record": _killed_before_record,
    "killed after record": _killed_after_record,
    "writing": _writing,
    "429": _failing("429"),
    "500": _failing("500"),
    "refused": _failing("refused"),
    "slow": _failing("slow"),
    "revoked": _failing("revoked"),
    "lost": _failing("lost"),
}
SCENES: Final[tuple[str, ...]] = tuple(_PLAYS)
"""The names of what every channel is asked to do."""
_FOR_NOTICES: Final = {"card", "decided elsewhere", "hostile text", "killed before record", "killed after record"}
NOTICES_CANNOT: Final[Mapping[str, str]] = dict.fromkeys(
    {*SCENES} - _FOR_NOTICES - {*get_args(Failure)}, "it only notifies"
)
"""The table of a channel that only notifies."""


async def run_scene(bench: ChannelBench, scene: str) -> None:
    """Play a scene; raises AssertionError if the channel does not pass, and SkipTest if it cannot do that."""
    if scene in bench.cannot:
        raise SkipTest(f"{bench.name}: {bench.cannot[scene]}")
    await _PLAYS[scene](bench)
