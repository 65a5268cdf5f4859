"""Every surface says what a rule allows before a person makes it, in the same words."""

import io

import pytest
from rich.console import Console
from test_cards import NOW, make_approval

from supervisor.channels.discord.components import card_message, retired_message
from supervisor.channels.slack.blocks import card_blocks, retired_blocks
from supervisor.channels.terminal.desk import Desk
from supervisor.channels.terminal.screen import draw_face
from supervisor.channels.web.pages.inbox import card_view
from supervisor.channels.wording.cards import decided
from supervisor.channels.wording.granting import reach
from supervisor.core.values import Approval, Option


def on_the_terminal(approval: Approval) -> str:
    desk = Desk("ana", 0.0)
    desk.add(approval, 0.0)
    console = Console(width=2000, file=io.StringIO())
    with console.capture() as shown:
        for desk.granting in ("session", "always"):
            console.print(draw_face(desk, approval, NOW))
    return shown.get()


SURFACES = {
    "terminal": on_the_terminal,
    "web": lambda approval: str(card_view(approval, NOW).grants),
    "slack": lambda approval: str(card_blocks(approval, NOW)),
    "discord": lambda approval: str(card_message(approval, NOW)),
}


RETIRED = {
    "terminal": lambda approval: decided(approval, NOW),
    "web": lambda approval: card_view(approval, NOW).row.ending,
    "slack": lambda approval: str(retired_blocks(approval)),
    "discord": lambda approval: str(retired_message(approval)),
}


@pytest.mark.parametrize("surface", RETIRED)
def test_every_surface_says_after_the_decision_that_the_call_was_edited(surface):
    """A8: what ran was not what was asked."""
    about = {"status": "approved", "decision": "approve", "by": "ana", "scope": "once", "decided_at": NOW}
    said = [RETIRED[surface](make_approval(edited=edited, **about)) for edited in (False, True)]
    assert said[0] != said[1]


@pytest.mark.parametrize("surface", SURFACES)
def test_every_surface_says_how_far_a_grant_reaches(surface):
    """A7: for whom and until when is the same everywhere, and names the session whose tree it is."""
    approval = make_approval(options=(Option("once"), Option("session", "rm *"), Option("always", "rm *")))
    said = SURFACES[surface](approval)
    assert approval.root_session in reach(approval, "session")
    assert reach(approval, "session") in said
    assert reach(approval, "always") in said


@pytest.mark.parametrize("surface", SURFACES)
def test_every_surface_shows_each_pattern_of_a_list(surface):
    """A7: each line becomes a rule of its own, so a person sees each before granting it."""
    pattern = "npm run check *\ntail *"
    approval = make_approval(
        options=(Option("once"), Option("session", pattern), Option("always", pattern)), command="command"
    )
    said = SURFACES[surface](approval)
    assert "npm run check *" in said
    assert "tail *" in said
