"""A press asks the journal whether its card shows the request whole (A11)."""

import pytest
from msgspec.structs import replace

from supervisor import Context, MemoryStore, agent, events as e, open_supervisor, tool
from supervisor.channels.chat.answering import Answering
from supervisor.channels.sdk import all_facts
from supervisor.core.approvals.people import People
from supervisor.seam.channel import Channel

pytestmark = pytest.mark.anyio


@tool(policy="ask")
async def deploy(target: str) -> str:
    """Deploy."""
    return target


@agent
async def deployer(ctx: Context) -> None:
    """Call a tool that asks."""
    await ctx.call(deploy, "production")


class Board(Channel):
    """A channel whose code says today that a card shows everything, or nothing."""

    def __init__(self, *, whole: bool) -> None:
        self.name, self.whole = "board", whole

    async def serve(self, supervisor):
        """Serve nothing."""

    async def post(self, approval, card):
        return "c:1"

    async def retire(self, approval, card):
        """Keep the card."""

    def shows(self, approval):
        return all_facts(approval, approval.created_at) if self.whole else ()


async def asking(supervisor):
    await supervisor.start(deployer)
    async with supervisor.watch_approvals() as watch:
        return await anext(aiter(watch))


NOTED = {"c:1": False, "c:2": True, "d:3": True}
"""The cards of one approval in the journal, and whether each shows it whole."""


@pytest.mark.parametrize("today", [True, False])
@pytest.mark.parametrize(
    ("code", "card", "is_refused"),
    [
        ("approve.0", "c:1", True),
        ("approve.0", "c:2", False),
        ("approve.0", "", True),
        ("approve.0", "d", False),
        ("approve.0", "z:9", None),
        ("deny", "c:1", False),
    ],
)
async def test_a_press_that_says_yes_asks_what_was_journaled_of_its_card(today, code, card, is_refused):
    """What today's code would draw counts only for a card that the journal does not know."""
    async with open_supervisor(MemoryStore()) as supervisor:
        approval = await asking(supervisor)
        shown = e.CardPosted(at=approval.created_at, approval=approval.id, channel="board")
        cards = [replace(shown, card=card, place=f"at {card}", is_whole=is_whole) for card, is_whole in NOTED.items()]
        await supervisor._runner.journal.append(lambda view: [(approval.session, each) for each in cards])
        told = await Answering("board", People(())).why_unseen(
            supervisor, Board(whole=today), approval, code, None, card
        )
        assert (told is not None) == (not today if is_refused is None else is_refused)
        await supervisor.cancel(approval.session)
