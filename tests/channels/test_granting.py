"""Every surface says what a rule allows before a person makes it, in the same words."""

import io

import pytest
from rich.console import Console
from test_cards import NOW, make_approval

from supervisor.channels.chat.presses import buttons_of, decision_of, unseen_buttons
from supervisor.channels.discord.components import card_message, retired_message
from supervisor.channels.slack.blocks import card_blocks, retired_blocks
from supervisor.channels.terminal.desk import Desk
from supervisor.channels.terminal.screen import draw_face
from supervisor.channels.web.pages.inbox import card_view, decision_of as web_decision, wider
from supervisor.channels.wording.cards import decided
from supervisor.channels.wording.granting import reach
from supervisor.core.errors import InvalidInput
from supervisor.core.values import Allowance, Approval, Approve, Option


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


ENDING = (Allowance("rm *", uses=10), Allowance("rm *", minutes=15))
WIDE = (Option("once"), Option("session", "rm *"), Option("always", "rm *"))


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


@pytest.mark.parametrize("surface", SURFACES)
def test_every_surface_offers_the_next_ten_and_fifteen_minutes_first(surface):
    """A19: before what holds until it is revoked, and with where it holds, and for how long."""
    approval = make_approval(options=WIDE, allowances=ENDING)
    said = SURFACES[surface](approval)
    wanted = ["The next 10 like it", "15 minutes", reach(approval, "always")]
    places = [said.find(each) for each in wanted]
    assert -1 < places[0] < places[1] < places[2]
    assert reach(approval, "session", ENDING[0]) in said or surface == "terminal"


def test_a_button_of_an_allowance_says_its_code_alone():
    """What it allows is in the store, so a forged code gives nothing that was not offered; and a yes to it was seen."""
    approval = make_approval(options=WIDE, allowances=ENDING)
    buttons = buttons_of(approval)
    assert [each.code for each in buttons][:5] == ["approve.0", "allow.0", "allow.1", "approve.1", "approve.2"]
    made = [decision_of(each.code, approval, "ana") for each in buttons[1:3]]
    assert made == [
        Approve(by="ana", scope="session", pattern="rm *", uses=10),
        Approve(by="ana", scope="session", pattern="rm *", minutes=15),
    ]
    assert not {each.code for each in unseen_buttons(buttons)} & {"allow.0", "allow.1"}
    for code in ("allow.2", "allow.-1", "allow", "allow.x"):
        with pytest.raises(InvalidInput):
            decision_of(code, approval, "ana")
    with pytest.raises(InvalidInput):
        decision_of("allow.0", make_approval(options=WIDE), "ana")


def test_the_web_and_the_terminal_decide_what_they_offer():
    """The form sends the code; on the terminal a number chooses it after the key of the session."""
    approval = make_approval(options=WIDE, allowances=ENDING)
    found = [web_decision(approval, {"decision": "approve", "grant": each.value}, "ana") for each in wider(approval)]
    assert [(each.scope, each.uses, each.minutes) for each in found] == [
        ("session", 10, None),
        ("session", None, 15),
        ("session", None, None),
        ("always", None, None),
    ]
    desk = Desk("ana", 0.0)
    desk.add(approval, 0.0)
    desk.granting = "session"
    assert [each.approve("ana") for each in desk.wider] == found[:3]
