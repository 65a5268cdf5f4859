"""A person sees all of a text: no character is invisible, and in what runs none looks like another one (A7)."""

import re
import unicodedata

import pytest
from hypothesis import example, given, strategies as st

from supervisor.core.calls.content import shown_content
from supervisor.core.calls.rules import grantable
from supervisor.core.text.visible import gathered, is_visible, json_text, kind_of, visible, visible_json

UNSEEN = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u180e\u180f\u200b\u200f\u202a\u202e\u2060\u206f"
    "\u2800\u3164\ufe00\ufe0f\ufeff\uffa0\ufff0\ufffc\U0001107f\U00013441\U00013442\U00016fe4\U0001bca0\U0001d159"
    "\U0001d173\U000e0001\U000e0041\U000e0100\U000e0fff\ue000\u0378\ud800\u0085\u2028\u00a0\u3000\u2003"
)
KINDS = ("code", "words", "prose")
ALIKE = {
    "a Cyrillic letter in a Latin word": "g\u0456thub.com",
    "a Greek letter in a Latin word": "g\u03bfogle",
    "a Hebrew letter in a Latin word": "g\u05e1\u05e1gle",
    "a Latin letter in a Cyrillic word": "\u043f\u0440\u0438\u0432e\u0442",
    "a Cherokee letter in a Latin word": "\u13a0pple",
    "a phonetic letter in a Latin word": "\u0261ithub",
    "small capitals": "\u1d04\u1d00\u1d1b",
    "a Cyrillic word that reads copy": "\u0441\u043e\u0440\u0443",
    "a Cyrillic word that reads key": "\u043a\u0435\u0443",
    "a Greek word that reads ovo": "\u03bf\u03bd\u03bf",
    "a Greek word that could be Cyrillic": "\u03c6\u03bf\u03c4\u03bf",
    "Lisu letters that read IS": "\ua4f2\ua4e2",
    "a dotless i": "g\u0131t",
    "a ligature": "\ufb01le",
    "full-width letters": "\uff52\uff4d",
    "mathematical letters": "\U0001d42b\U0001d426",
    "the Kelvin sign": "\u212aILL",
    "an Arabic digit": "\u0661",
    "a Greek question mark": "ls\u037e",
    "a slash that is none": "a\u2215b",
    "a full-width slash": "a\uff0fb",
    "a full stop of host names": "a\u3002b",
    "a minus sign": "\u2212rf",
    "an em dash": "\u2014rf",
    "a long dash": "\u2e3arf",
    "a line of a box for a pipe": "a\u2502b",
    "a click for a pipe": "\u01c0",
    "a modifier for a backtick": "\u02cba\u02cb",
    "a broken line for a pipe": "a \u2758 b",
    "an ornament for an asterisk": "\u2731",
    "low quotation marks": "\u201ea\u201c",
    "curly quotation marks": "\u201ca\u201d",
    "the brackets of a mark": "\u27e8U+202E\u27e9",
}
HONEST = (
    "tidy up the cafe\u0301, na\u00efve, stra\u00dfe, ti\u1ebfng Vi\u1ec7t, \u0131\u015f\u0131k, \U0001f600",
    "\u043f\u0440\u0438\u0432\u0435\u0442 \u043c\u0438\u0440, \u0444\u0430\u0439\u043b.txt, git-\u0447\u0442\u043e",
    "\u039a\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1 \u03ba\u03cc\u03c3\u03bc\u03b5, \u03b1\u03c1\u03c7\u03b5.txt",
    "\u4f60\u597d \u4e16\u754c \u6587\u4ef6.txt",
    "T\u30b7\u30e3\u30c4\u3092\u98df\u3079\u308b \u30ce\u30fc\u30c8 \ud55c\uad6d\uc5b4",
    "\u0645\u0631\u062d\u0628\u064b\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645",
    "\u05e9\u05c1\u05dc\u05d5\u05b9\u05dd \u05e2\u05d5\u05dc\u05dd",
    "\u0939\u093f\u0928\u094d\u0926\u0940 \u0e20\u0e32\u0e29\u0e32\u0e44\u0e17\u0e22\u0e19\u0e49\u0e33",
    "c\u0153ur, \u0153uvre.txt, c\u01a1m, \u00e6re, S\u00e3o_Paulo, \u0141\u00f3d\u017a, \u0130stanbul",
    "\u0394t, sin\u03b8, cos\u03c6, \u03bcs, \u03bb_max, \u03c0.py, \u03b82, \u03a3-\u0394, \u03a9",
    "5\u20ac, 20\u00b0C, m\u00b2, 6\u00f72, build\u00b7cache",
    "a-\u0967\u0968, 3D-\u043c\u043e\u0434\u0435\u043b\u044c",
)
PROSE = (
    "\u201cquoted\u201d \u2013 and \u2026 5 \u20ac, 3 m\u00b2, \u00b5m, don\u2019t",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01\uff12\uff10\uff12\uff16\u5e74",
    "\u043a\u0442\u043e \u0441 \u043d\u0430\u043c\u0438: g\u0456thub",
)


@pytest.mark.parametrize("char", UNSEEN, ids=[f"{ord(char):05x}" for char in UNSEEN])
def test_an_invisible_character_is_marked_and_cannot_be_in_a_rule(char):
    """In text of every kind, next to any other characters; a card and an offered pattern agree."""
    for text in (f"ls{char}", f"ls {char}", f"\u0430{char}", f"\u1820{char}x", char):
        for kind in KINDS:
            assert char not in visible(text, kind=kind, lines=True)
            assert not is_visible(text, kind)
    assert grantable(shown_content("t", {"text": f"ls{char}"}, folder="/")) == ()


@pytest.mark.parametrize("text", ALIKE.values(), ids=ALIKE)
def test_in_code_what_can_be_mistaken_for_something_else_is_marked(text):
    """All of it that is not ASCII: a reader sees which letters are not what they seem."""
    assert re.sub("[\u27e8\u27e9]", "", visible(text)).isascii()
    if "\u27e8" not in text:  # brackets are seen, and only imitate marks
        assert grantable(shown_content("t", {"command": text}, folder="/", command="command")) == ()


TWINS = {
    "the letter of a name": ("\u03c0", "\u043f"),
    "a letter in a name": ("cos\u03c6", "cos\u0444"),
    "a Latin letter of a name": ("\u0394x", "\u0394\u03c7"),
    "a name with a letter that looks Latin": ("\u0394vt", "\u0394\u03bdt"),
    "a sharp s": ("stra\u00dfe", "stra\u03b2e"),
    "a degree": ("20\u00b0C", "20\u02daC"),
    "a middle dot": ("a\u00b7b", "a\u2022b"),
    "an increment": ("\u0394t", "\u2206t"),
    "an omega": ("\u03a9", "\u2126"),
}


@pytest.mark.parametrize("pair", TWINS.values(), ids=TWINS)
def test_of_two_texts_in_code_that_look_alike_one_is_marked(pair):
    """People read the other one as it is."""
    assert [visible(each) == each for each in pair].count(True) == 1


@pytest.mark.parametrize("text", HONEST)
def test_text_in_one_script_is_unchanged(text):
    """In any language and of any kind: marks follow letters of their script, and words look like nothing else. So are
    names of formulas, letters with accents, and signs of keyboards."""
    assert [visible(text, kind=kind, lines=True) for kind in KINDS] == [text] * 3


@pytest.mark.parametrize("text", [*PROSE, *(text for text in ALIKE.values() if "\u27e8" not in text)])
def test_prose_is_not_marked_for_look_alikes(text):
    """No program runs it, and its readers know their own signs and letters."""
    assert visible(text, kind="prose") == text


def test_a_value_of_an_argument_is_code_if_it_is_one_word():
    """It may be a name, a path or an id. In several words only those are marked that mix scripts."""
    assert [kind_of(each) for each in ("a/b", " a ", "", "a b", "a\nb", r"a\nb")] == ["code"] * 3 + ["words"] * 3
    mixed, whole = "g\u0456thub", "\u0441\u043e\u0440\u0443"
    assert visible(f"{whole} \u2013 {mixed}", kind="words") == f"{whole} \u2013 g\u27e8U+0456\u27e9thub"
    assert visible_json(f'["{whole}", "{whole} {whole}"]').endswith(f', "{whole} {whole}"]')
    assert visible_json(f'["{whole}"]').count("\u27e8") == 4


def test_a_combining_mark_needs_a_letter_of_its_own_script():
    """After other characters it is drawn over them, or nowhere; more than three of them climb over other lines."""
    assert is_visible("e\u0301 \u0939\u093f \u05e9\u05c1")
    for hidden in ("\u0301x", "=\u0338", "1\u20e3", "x\u05b9", "a\u093c", "a" + "\u0301" * 4):
        assert not is_visible(hidden, "prose")
    assert visible("a" + "\u0301" * 5) == "a" + "\u0301" * 3 + "\u27e8U+0301\u27e9" * 2


def test_right_to_left_text_can_be_shown_in_the_order_in_which_it_runs():
    """A screen draws the last two words of this text in the other order."""
    command = "cp \u05d0 \u05d1"
    assert visible(command) == command
    assert visible(command, ordered=True) == "cp \u27e8U+05D0\u27e9 \u27e8U+05D1\u27e9"
    assert visible("cat /\u05d0/x", ordered=True) == "cat /\u05d0/x"


SAID = {
    "a tab and a backslash with t": ("a\tb", r"a\tb"),
    "a carriage return and a backslash with r": ("a\rb", r"a\rb"),
    "an override and its escape": ("a\u202eb", r"a\u202eb"),
    "an override and its mark": ("a\u202eb", "a\u27e8U+202E\u27e9b"),
    "spaces and our words for them": (f"a{' ' * 41}b", "a \u27e841 spaces\u27e9 b"),
    "empty lines and our words for them": ("a" + "\n" * 12 + "b", "a\n\u27e811 empty lines\u27e9\nb"),
    "empty lines and lines of spaces": ("a" + "\n" * 12 + "b", "a" + "\n" * 6 + " " + "\n" * 6 + "b"),
}


@pytest.mark.parametrize("pair", SAID.values(), ids=SAID)
def test_two_texts_never_look_the_same(pair):
    """What we write for a character is not what a text that holds our words for it becomes."""
    one, other = (gathered(visible(text, lines=True)) for text in pair)
    assert one != other


def test_only_the_brackets_of_marks_are_marked_in_ascii_text():
    """A regular expression reads as it runs."""
    assert visible(r"grep '\bfoo\u0041' | tr \\ /") == r"grep '\bfoo\u0041' | tr \\ /"


HOSTILE = st.text() | st.text("a\u0430\u0435\u0250\u0301\u200b\x1b\n\t\\ U+0.\u05d0\uff41\u27e8\u27e9")
GAPS = st.lists(
    st.sampled_from([" ", " " * 41, "\n", "\n" * 9, "\n" * 12, "a", "\u27e841 spaces\u27e9", "\u27e8"])
).map("".join)


def read_back(shown: str) -> str:
    """The text of which `gathered(visible(text, lines=True))` is the drawing."""
    shown = re.sub(" \u27e8([0-9]+) spaces\u27e9 ", lambda mark: " " * int(mark[1]), shown)
    spaces = "\u27e8([0-9]+) lines of ([0-9]+) spaces\u27e9\n"
    shown = re.sub(spaces, lambda mark: (" " * int(mark[2]) + "\n") * int(mark[1]), shown)
    shown = re.sub("\u27e8([0-9]+) empty lines\u27e9\n", lambda mark: "\n" * int(mark[1]), shown)
    return re.sub("\u27e8U\\+([0-9A-F]+)\u27e9", lambda mark: chr(int(mark[1], 16)), shown)


@given(HOSTILE | GAPS, st.sampled_from(KINDS), st.booleans())
@example("\U00014fda\u0250", "code", False)
def test_a_text_can_be_read_back_from_what_is_shown(text, kind, ordered):
    """So no two texts are shown alike, of one kind or of two."""
    assert read_back(gathered(visible(text, kind=kind, lines=True, ordered=ordered))) == text
    assert read_back(visible(text, kind=kind, ordered=ordered)) == text


@given(HOSTILE, st.sampled_from(KINDS), st.booleans(), st.booleans())
def test_marking_leaves_nothing_that_a_screen_obeys(text, kind, lines, ordered):
    """Nor anything that it draws as nothing."""
    unseen = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
    shown = visible(text, kind=kind, lines=lines, ordered=ordered)
    assert all((lines and char == "\n") or unicodedata.category(char) not in unseen for char in shown)


def test_an_escape_is_not_part_of_the_next_word():
    """Its letters are Latin, and the word does not become mixed: after a mark, and in JSON."""
    word = "\u043f\u0440\u0438\u0432\u0435\u0442"
    for text in (f"\u200b{word}", f"a\n{word}", f"\x1b{word}\t\u0441\u043e\u0440"):
        for shown in (visible(text), visible(json_text(text), kind="words", lines=True)):
            assert word in shown
    assert visible("\\n\u0435w", kind="words") == "\\n\u27e8U+0435\u27e9w"


@given(st.text(st.characters(codec="utf-8")))
def test_json_to_edit_is_all_visible(text):
    """It uses JSON's own escapes, which an editor returns."""
    assert is_visible(json_text({"text": text}), "words")
