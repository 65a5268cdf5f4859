"""A person sees all of a text: no character is invisible, and none looks like another one (A7)."""

import unicodedata

import pytest
from hypothesis import example, given, strategies as st

from supervisor.core.calls.content import shown_content
from supervisor.core.calls.rules import grantable
from supervisor.core.text.visible import is_reordered, is_visible, json_text, visible

UNSEEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u200b\u200f\u202a\u202e\u2060\u206f"
    "\u2800\u3164\ufe00\ufe0f\ufeff\uffa0\ufff0\ufffc\U0001107f\U00013441\U00013442\U00016fe4\U0001bca0\U0001d159"
    "\U0001d173\U000e0001\U000e0041\U000e0100\U000e0fff\ue000\u0378\ud800\u0085\u2028\u00a0\u3000\u2003"
)
ALIKE = {
    "a Cyrillic letter in a Latin word": "g\u0456thub.com",
    "a Greek letter in a Latin word": "g\u03bfogle",
    "a Latin letter in a Cyrillic word": "\u043f\u0440\u0438\u0432e\u0442",
    "a Cherokee letter in a Latin word": "\u13a0pple",
    "a phonetic letter in a Latin word": "\u0261ithub",
    "a Cyrillic word before a Latin one": "\u0441\u043e\u0440\u0443.com",
    "full-width letters": "\uff52\uff4d",
    "mathematical letters": "\U0001d42b\U0001d426",
    "the Kelvin sign": "\u212aILL",
    "a Greek question mark": "ls\u037e",
    "a slash that is none": "a\u2215b",
}
HONEST = (
    "tidy up the cafe\u0301, na\u00efve \u2013 \u201cquoted\u201d \u2026 5 \u20ac, 3 m\u00b2",
    "\u043f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440, \u0444\u0430\u0439\u043b.txt, git-\u043e\u043c",
    "\u039a\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1 \u03ba\u03cc\u03c3\u03bc\u03b5, \u03b1\u03c1\u03c7\u03b5.txt",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01\u6587\u4ef6.txt",
    "T\u30b7\u30e3\u30c4\u3092\u98df\u3079\u308b \ud55c\uad6d\uc5b4",
    "\u0645\u0631\u062d\u0628\u064b\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
    "\u05e9\u05c1\u05dc\u05d5\u05b9\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22\u0e19\u0e49\u0e33",
    "a-\u0967\u0968, 3D-\u043c\u043e\u0434\u0435\u043b\u044c",
    "ti\u1ebfng Vi\u1ec7t, stra\u00dfe, \u00b5m, \u0131\u015f\u0131k, \U0001f600",
)


@pytest.mark.parametrize("char", UNSEEN, ids=[f"{ord(char):05x}" for char in UNSEEN])
def test_an_invisible_character_is_marked_and_cannot_be_in_a_rule(char):
    """Next to any other characters; a card and an offered pattern agree, since they use the same function."""
    for text in (f"ls{char}", f"ls {char}", f"\u0430{char}", f"\u1820{char}x", char):
        assert char not in visible(text, lines=True)
        assert not is_visible(text)
    assert grantable(shown_content("t", {"text": f"ls{char}"}, folder="/")) == ()


@pytest.mark.parametrize("text", ALIKE.values(), ids=ALIKE)
def test_text_that_can_be_mistaken_for_another_is_marked(text):
    """All of it that is not ASCII: a reader sees which letters are not what they seem."""
    assert visible(text).isascii()
    assert grantable(shown_content("t", {"command": text}, folder="/", command="command")) == ()


@pytest.mark.parametrize("text", HONEST)
def test_text_in_one_script_is_unchanged(text):
    """In any language: marks follow letters of their script, and words do not mix scripts that look alike."""
    assert visible(text, lines=True) == text


def test_a_combining_mark_needs_a_letter_of_its_own_script():
    """After other characters it is drawn over them, or nowhere; more than three of them climb over other lines."""
    assert is_visible("e\u0301 \u0939\u093f \u05e9\u05c1")
    for hidden in ("\u0301x", "=\u0338", "1\u20e3", "x\u05b9", "a\u093c", "a" + "\u0301" * 4):
        assert not is_visible(hidden)
    assert visible("a" + "\u0301" * 5) == "a" + "\u0301" * 3 + "\\u0301" * 2


def test_right_to_left_text_can_be_shown_in_the_order_in_which_it_runs():
    """A screen draws the last two words of this text in the other order."""
    command = "cp \u05d0 \u05d1"
    assert (visible(command), is_reordered(command)) == (command, True)
    assert visible(command, ordered=True) == "cp \\u05d0 \\u05d1"
    assert not is_reordered(visible(command, ordered=True))
    assert not any(map(is_reordered, ("cp a b", "caf\u00e9", "\u4e16", "\u043c\u0438\u0440")))


@given(st.text() | st.text("a\u0430\u0435\u0250\u0301\u200b\x1b\n\\ u0.\u05d0\uff41"), st.booleans(), st.booleans())
@example("\U00014fda\u0250", False, False)
def test_marking_is_done_once_and_leaves_nothing_that_a_screen_obeys(text, lines, ordered):
    """Text that was made visible is not changed by a second time."""
    shown = visible(text, lines=lines, ordered=ordered)
    assert visible(shown, lines=lines, ordered=ordered) == shown
    assert visible(shown, lines=True) == shown
    unseen = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    assert all(char == "\n" or unicodedata.category(char) not in unseen for char in shown)


def test_an_escape_is_not_part_of_the_next_word():
    """Its letters are Latin, and the word does not become mixed: in one line, as JSON, and when it is shown again."""
    word = "\u043f\u0440\u0438\u0432\u0435\u0442"
    for text in (f"\u200b{word}", f"a\n{word}", f"\x1b{word}\t\u0441\u043e\u0440"):
        for shown in (visible(text), visible(visible(text)), visible(json_text(text), lines=True)):
            assert word in shown
    assert visible(r"\n\u0435w").isascii()


@given(st.text(st.characters(codec="utf-8")))
def test_json_to_edit_is_all_visible(text):
    """It uses JSON's own escapes, which an editor returns."""
    assert is_visible(json_text({"text": text}))
