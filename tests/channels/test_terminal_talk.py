"""Questions and chat words at the terminal: a real terminal, real keys, on both backends."""

import json

import pytest
from test_cards import make_approval

from supervisor.channels.terminal.desk import Desk, OpenTalk
from supervisor.channels.terminal.keys import KeyDecoder
from supervisor.channels.terminal.line import PASTED
from supervisor.channels.terminal.talk import Say, Talk


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_questions_are_answered_with_a_number_a_letter_a_text_and_a_reason_for_none(on_terminal, backend):
    """Each kind has its keys; nothing in a question is obeyed by the terminal."""
    program = on_terminal(backend, program="questioning.py")
    program.see("“staging”")
    program.see("Ctrl-C")
    program.press("2")
    program.see("Sure?")
    program.see("Ctrl-C")
    program.press("y")
    program.see("Since when?")
    program.see("Ctrl-C")
    program.press("a")
    program.see("Answer:")
    program.press("gestern, früh\r")
    program.see("Anything else?")
    program.see("Ctrl-C")
    program.press("d")
    program.see("Why not?")
    program.press("not tonight\r")
    *answers, declined = json.loads(program.end()[1])
    assert answers == ["deny\x1b[2J", True, "gestern, früh"]
    assert "not tonight" in declined
    assert b"\x1b]0;" not in program.raw
    assert b"deny\x1b" not in program.raw
    assert "\u202e".encode() not in program.raw


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_yes_decides_the_one_card_that_was_shown(on_terminal, backend):
    """A12: a bare word, as the whole message."""
    program = on_terminal(backend, "only")
    program.see("Ctrl-C")
    program.press("t")
    program.see("To asking:")
    program.press("Yes\r")
    program.see("approved by ana")
    assert json.loads(program.end()[1]) == ["noted only 1"]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_chat_is_kept_a_bare_word_for_two_decides_nothing_and_approve_all_what_was_shown(on_terminal, backend):
    """A12, R7: "do NOT run that" is a message; "approve all" approves only cards that were shown."""
    program = on_terminal(backend, "first", "second")
    program.see("2 waiting")
    program.see("Ctrl-C")
    for said in ("do NOT run that", "yes"):
        program.press("t")
        program.see("To asking:")
        program.press(f"{said}\r")
        program.see(f"> {said}")
        program.see("Ctrl-C")
    assert "approved" not in program.text
    program.press("t")
    program.see("To asking:")
    program.press("approve all\r")
    program.see("not decided")
    program.see("─ waiting for you ─")  # the other one, alone
    program.see("Ctrl-C")
    program.press("t")
    program.see("To asking:")
    program.press("approve all\r")
    assert sorted(json.loads(program.end()[1])) == ["noted first 1", "noted second 1"]
    assert program.text.count("yes ") >= 2  # the reply named both, with their ids


def make_desk(*approvals):
    desk = Desk("ana", 0.4)
    for approval in approvals:
        desk.add(approval, 0.0)
        desk.whole.add((approval.id, None))
    return desk


def test_a_word_that_was_begun_before_its_card_could_be_read_is_said_only_once_more():
    """A12: a card that came while the person typed is not decided; a second Enter decides it."""
    desk = make_desk()
    assert desk.press(["t"], 1.0) == OpenTalk(None)
    desk.talk = Talk("s", "", 1.0)
    desk.press([*"yes"], 2.0)
    desk.add(make_approval(id="p", root_session="s"), 3.0)
    assert desk.press(["enter"], 3.1) is None
    desk.whole.add(("p", None))
    assert desk.press(["enter"], 9.0) is None
    assert desk.press(["enter"], 9.5) == Say("s", "yes", 9.0, frozenset({"p"}))
    assert desk.talk is None


def test_approve_all_means_the_cards_shown_whole_when_the_word_was_begun():
    """A12: not a card that was never selected, or only just now, or that shows other arguments than were asked."""
    cards = [make_approval(id=name, root_session="s", arguments={"x": name}) for name in "abcd"]
    desk = make_desk(*cards)
    desk.whole.discard(("d", None))
    desk.edit("b", '{"x": "edited"}', 1.0)
    desk.press(["tab"], 5.0)  # c: the one after b, which an edit selects
    desk.talk = Talk("s", "", 5.1)
    desk.press([*"approve all"], 5.1)
    desk.whole.add(("d", None))
    assert desk.press(["enter"], 9.0) is None
    assert "again" in desk.message
    assert desk.press(["enter"], 9.1) == Say("s", "approve all", 9.0, frozenset({"a", "c", "d"}))
    desk.whole.discard(("d", None))
    desk.talk = Talk("s", "", 10.0)
    desk.press([*"approve all"], 10.0)
    desk.whole.add(("d", None))
    assert desk.press(["enter"], 11.0) == Say("s", "approve all", 10.0, frozenset({"a", "c"}))


def test_typed_text_survives_cards_that_come_and_go():
    """Neither the text nor where it goes to changes with what is selected."""
    desk = make_desk(make_approval(id="p", root_session="s"), make_approval(id="q", root_session="other"))
    assert desk.press(["t"], 1.0) == OpenTalk("s")
    desk.talk = Talk("s", "", 1.0)
    desk.press([*"no, w"], 1.0)
    desk.remove("p", 2.0)
    assert desk.press([*"ait", "enter"], 3.0) == Say("s", "no, wait", 1.0, frozenset({"p", "q"}))
    desk.talk = Talk("s", "", 1.0)
    assert desk.press(["x"], 1.0) is None
    assert desk.press(["esc"], 1.0) is None
    assert desk.talk is None


def test_a_paste_is_text_and_never_keys():
    """However it comes: bracketed in pieces, or bare with line ends in it; on a card it counts for nothing."""
    decoder = KeyDecoder()
    pasted = "a\ré日\x1b[Bx"
    data = f"\x1b[200~{pasted}\x1b[201~t".encode()
    assert [key for byte in data for key in decoder.feed(bytes([byte]))] == [f"{PASTED}a\né日\x1b[Bx", "t"]
    desk = make_desk(make_approval(id="p", root_session="s"))
    assert desk.press([f"{PASTED}a"], 9.0) is None
    desk.talk = Talk("s", "", 1.0)
    assert desk.press([f"{PASTED}one\ntwo\n"], 2.0) is None
    assert desk.press(["enter", "x", "enter"], 3.0) == Say("s", "one\ntwo\n\nx", 2.0, frozenset({"p"}))
