"""Keys, the line that is typed, and the desk: the terminal channel without a terminal."""

import io
import sys

import pytest
from hypothesis import given, strategies as st
from rich.console import Console
from test_cards import NOW, make_approval

from supervisor.channels.terminal.desk import Decide, Desk, OpenEditor, ShowWhole
from supervisor.channels.terminal.keys import KeyDecoder
from supervisor.channels.terminal.line import Line
from supervisor.channels.terminal.screen import draw_card, draw_region
from supervisor.channels.terminal.talk import Talk
from supervisor.channels.wording.cards import make_card
from supervisor.cli.asked import print_approvals, print_rows
from supervisor.core.values import Approve, Deny, Option


def make_desk(*ids: str, **options) -> Desk:
    desk = Desk("ana", 0.4, **options)
    for name in ids:
        desk.add(make_approval(id=name), 0.0)
        desk.whole.add((name, None))
    return desk


def test_a_key_that_was_meant_for_the_last_card_does_not_hit_the_next():
    """When the selected card goes away, the one in its place must be looked at first (A2)."""
    desk = make_desk("first", "second")
    desk.remove("first", 10.0)
    assert desk.selected == "second"
    assert desk.press(["a"], 10.1) is None
    assert desk.press(["a"], 10.5) == Decide("second", Approve(by="ana"))


def test_a_card_that_was_not_shown_whole_cannot_be_approved():
    """What runs off the screen is read before it runs."""
    desk = make_desk("long")
    desk.whole.clear()
    assert desk.press(["a"], 1.0) is None
    assert desk.press(["v"], 1.0) == ShowWhole("long")
    desk.whole.add(desk.face)
    assert desk.press(["a"], 1.0) == Decide("long", Approve(by="ana"))


@pytest.mark.parametrize("size", [(40, 12), (30, 10), (80, 24), (200, 50)])
@pytest.mark.parametrize("key", [None, "d", "t", "tab"])
def test_the_keys_are_on_every_screen_and_the_card_comes_before_the_list(size, key):
    """Nobody types where they cannot see it: what does not fit goes from the list, then from the card."""
    desk = make_desk(*(str(number) * 24 for number in range(8)))
    desk.whole.clear()
    if key == "t":
        desk.talk = Talk("s", "good morning", 0.0)
    elif key is not None:
        desk.press([key], 9.0)
    console = Console(width=size[0], height=size[1], file=io.StringIO())
    lines = ["".join(segment.text for segment in line) for line in draw_region(desk, [], console, NOW)]
    text = "".join(line.rstrip() + " " for line in lines)
    assert len(lines) < size[1]
    assert ("Esc" if key in ("d", "t") else "stop for now") in text
    assert ("view whole" in text) <= ("more lines: " in text)
    assert not ("more lines: " in text and any(line.startswith("   ") for line in lines))


@pytest.mark.parametrize("width", [20, 40, 80])
@pytest.mark.parametrize("name", ["n" * 90, " " * 82, "\u5b57" * 60, "x"])
def test_no_name_and_no_other_choice_hides_what_is_decided(width, name):
    """A2: an argument may have any name, and a long word is folded, not cut: each end is what tells two apart."""
    for asked, ends in (
        (make_approval(arguments={name: "\u03a9\u03a8", "other": 1}), "\u03a9\u03a8"),
        (
            make_approval(kind="question", question=name, choices=(f"{'x' * 90}\u03a9", f"{'x' * 90}\u03a8")),
            "\u03a9\u03a8",
        ),
    ):
        console = Console(width=width, file=(written := io.StringIO()))
        console.print(draw_card(make_card(asked, NOW), width))
        assert all(end in written.getvalue() for end in ends)


def test_no_line_of_a_long_name_imitates_a_line_of_ours():
    """Each but its first has a gutter, also next to the second line of its value."""
    for blanks in range(1, 40):
        asked = make_approval(arguments={f"{'n' * 20}{' ' * blanks}where": f"{'x' * 150} /tmp"}, command=None)
        console = Console(width=80, file=(written := io.StringIO()))
        console.print(draw_card(make_card(asked, NOW)))
        lines = [
            line.strip("\u2502 ").split() for line in written.getvalue().split("\n") if line.startswith("\u2502 w")
        ]
        assert lines == [["where", "/srv"]]


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_a_list_folds_below_what_it_folds(monkeypatch):
    """No command begins a line of a list as an id or a label of ours does, and each word of it is there."""
    for name, value in {"TERM": "dumb", "COLUMNS": "60", "LINES": "50"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stdout", written := Screen())
    words = f"echo {'y' * 40} cew5br7p  since 22:32 {'z' * 30}  for      root {'w' * 100}"
    asked = [make_approval(arguments={"command": words, "n" * 90: words}), make_approval(id="b" * 42, path=("a" * 80,))]
    print_approvals(asked)
    print_rows(asked)
    lines = written.getvalue().splitlines()
    ours = ("qrstuvwx  since", "bbbbbbbb  since", "janitor [", "a" * 60, "a" * 20 + " [")
    assert [line for line in lines if line and not line.startswith("  ") and not line.startswith(ours)] == []
    assert sum(line.split()[0] == "for" for line in lines if line) == len(asked)
    whole = "".join("".join(lines).split())
    assert whole.count("".join(words.split())) >= 2


def test_a_denial_takes_a_reason_or_none():
    """Enter alone denies without one; ESC changes one's mind."""
    desk = make_desk("only")
    assert desk.press(["d"], 1.0) is None
    assert desk.press(["esc"], 1.0) is None
    assert desk.line is None
    desk.press(["d"], 1.0)
    assert desk.press(["n", "o", "enter"], 1.0) == Decide("only", Deny(by="ana", reason="no"))
    desk.press(["d"], 1.0)
    assert desk.press(["enter"], 1.0) == Decide("only", Deny(by="ana"))


def test_edited_arguments_are_approved_only_from_the_card():
    """The edit itself decides nothing; `r` goes back to what was asked (A8)."""
    desk = make_desk("only")
    desk.edit("only", '{"command": ["ls"]}', 1.0)
    desk.whole.add(desk.face)
    assert desk.press(["a"], 2.0) == Decide("only", Approve(by="ana", arguments={"command": ["ls"]}))
    desk.press(["r"], 2.0)
    assert desk.press(["a"], 3.0) == Decide("only", Approve(by="ana"))


GRANTABLE = {
    "arguments": {"command": "git log", "cwd": None},
    "options": (
        Option("once"),
        Option("session", "in /srv: git log"),
        Option("always", "in /srv: git log"),
        Option("session", "in /srv: git log *"),
        Option("always", "in /srv: git log *"),
    ),
}


@pytest.mark.parametrize(("key", "scope"), [("s", "session"), ("w", "always")])
def test_a_wider_grant_is_shown_first_and_chosen_by_its_number(key, scope):
    """A7: the first key decides nothing; the pattern is chosen where it was shown, and read for long enough."""
    desk = Desk("ana", 0.4)
    desk.add(make_approval(id="only", **GRANTABLE), 0.0)
    assert (desk.press([key], 1.0), desk.granting) == (None, None), "its card was not shown whole"
    desk.whole.add(desk.face)
    assert (desk.press([key], 2.0), desk.granting) == (None, scope)
    assert [grant.pattern for grant in desk.wider] == ["in /srv: git log", "in /srv: git log *"]
    assert desk.press(["2"], 3.0) is None, "what can be granted was not shown whole"
    assert desk.press(["v"], 3.0) == ShowWhole("only")
    desk.whole.add(desk.face)
    assert desk.press(["2"], 2.1) is None, "it was shown only just now"
    assert [desk.press([other], 3.0) for other in ("a", "3", "0", "enter")] == [None] * 4
    assert desk.press(["2"], 3.0) == Decide("only", Approve(by="ana", scope=scope, pattern="in /srv: git log *"))


def test_escape_closes_the_list_of_grants_and_so_does_the_end_of_its_card():
    """A key meant for one card never grants anything for the next (A2)."""
    desk = Desk("ana", 0.4)
    for name in ("first", "second"):
        desk.add(make_approval(id=name, **GRANTABLE), 0.0)
        desk.whole |= {(name, None), (name, "session")}
    desk.press(["s"], 1.0)
    desk.press(["esc"], 2.0)
    assert (desk.press(["2"], 3.0), desk.selected, desk.granting) == (None, "first", None)
    desk.press(["tab"], 3.0)
    assert desk.selected == "second"
    desk.press(["s"], 4.0)
    desk.remove("second", 5.0)
    assert (desk.selected, desk.granting) == ("first", None)
    assert desk.press(["1"], 6.0) is None


def test_edited_arguments_and_what_is_offered_once_are_approved_once():
    """A5, A8: nothing is granted that was not offered, and the person is told so."""
    desk = Desk("ana", 0.0)
    desk.add(make_approval(id="once"), 0.0)
    desk.add(make_approval(id="edited", **GRANTABLE), 0.0)
    desk.edit("edited", '{"command": "rm x", "cwd": null}', 1.0)
    for name in ("once", "edited"):
        while desk.selected != name:
            desk.press(["tab"], 2.0)
        desk.whole.add((name, None))
        assert (desk.press(["w"], 3.0), desk.granting, bool(desk.message)) == (None, None, True)


@pytest.mark.parametrize("text", ["{", "[]", "nonsense", '{"a": 1} x'])
def test_text_that_cannot_be_arguments_is_kept_as_a_draft(text):
    """Bad JSON changes nothing, and the typed text is kept."""
    desk = make_desk("only", has_editor=True)
    desk.edit("only", text, 1.0)
    assert desk.edited == {}
    assert desk.message
    assert desk.press(["j"], 2.0) == OpenEditor("only", text)


def test_a_card_that_goes_away_takes_what_was_being_typed_with_it():
    """A reason typed for one approval never denies another."""
    desk = make_desk("first", "second")
    desk.press(["d"], 1.0)
    desk.remove("first", 1.5)
    assert desk.line is None
    assert desk.press(["enter"], 9.0) is None


@given(
    st.lists(
        st.sampled_from([*"aejdvrnpsw129xé", "up", "tab", "enter", "esc", "backspace", "gone", "new"]), max_size=40
    )
)
def test_no_sequence_of_keys_decides_anything_but_the_selected_card(keys):
    """Whatever is pressed while cards come and go, a decision names the card that is selected."""
    desk = make_desk("0", "1", "2")
    for now, key in enumerate(keys, 1):
        if key == "new":
            desk.add(make_approval(id=f"new{now}"), now)
            desk.whole.update((name, None) for name in desk.pending)
        elif key == "gone" and desk.selected:
            desk.remove(desk.selected, now)
        else:
            selected = desk.selected
            before = desk.granting
            action = desk.press([key], now)
            assert action is None or action.approval == selected
            is_wider = isinstance(action, Decide) and isinstance(action.decision, Approve) and action.decision.pattern
            assert not is_wider or (before, key in "12") == (action.decision.scope, True)
        assert (desk.selected in desk.pending) == bool(desk.pending)


@pytest.mark.parametrize(
    ("data", "keys"),
    [
        (b"a", ["a"]),
        ("é€".encode(), ["é", "€"]),
        (b"\x1b[A\x1bOD\x1b[3~\x1b[Z", ["up", "left", "delete", "backtab"]),
        (b"\r\t\x7f\x01", ["enter", "tab", "backspace", "ctrl-a"]),
        (b"\x1b[1;5C", ["unknown"]),
        (b"\x1bq", ["esc", "q"]),
    ],
)
def test_bytes_become_keys(data, keys):
    """Characters stand for themselves, other keys get a name, in whatever pieces their bytes come."""
    assert KeyDecoder().feed(data) == keys
    decoder = KeyDecoder()
    assert [key for byte in data for key in decoder.feed(bytes([byte]))] == keys


def test_a_lone_escape_is_a_key_once_nothing_follows():
    """Until then it may be the beginning of a sequence."""
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b") == []
    assert decoder.is_unfinished
    assert decoder.flush() == ["esc"]


def test_a_line_is_edited_where_the_cursor_is():
    """The usual editing keys work."""
    line = Line("hello world")
    for key in ["ctrl-w", "home", "delete", "J", "end", "backspace", "left", "right", "!"]:
        assert line.press(key) is None
    assert (line.text, line.cursor) == ("Jello!", 6)
    assert line.press("enter") == "accept"


def test_an_edit_is_confirmed_with_the_code_of_the_evidence_that_was_shown():
    """Another edit forgets it (A18)."""
    desk = make_desk("one")
    desk.edit("one", '{"command": "ls"}', 0.0)
    desk.whole.add(("one", None))
    desk.seen["one"] = "code"
    assert desk.press(["a"], 10.0) == Decide("one", Approve(by="ana", arguments={"command": "ls"}, seen="code"))
    desk.edit("one", '{"command": "rm"}', 20.0)
    assert desk.seen == {}
