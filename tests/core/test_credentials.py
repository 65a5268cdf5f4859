"""Credentials of well-known forms are masked wherever people look, and what runs has them (A15)."""

import re
import sys

import msgspec
import pytest
from hypothesis import assume, example, given, strategies as st

from supervisor.core.text.masks import (
    _CREDENTIALS,
    _TOKENS,
    REMEMBERED_CHARACTERS,
    SHORTEST_CHARACTERS,
    _has_mark,
    hide,
    hides,
    may_hide,
    search_credentials,
    unmask,
)

A = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
KEY = f"-----BEGIN OPENSSH PRIVATE KEY-----\n{A}\n{A}\n-----END OPENSSH PRIVATE KEY-----"
KNOWN = [
    f"ghp_{A}",
    f"github_pat_{A}",
    f"glpat-{A[:20]}",
    f"sk-ant-api03-{A}",
    f"sk-proj-{A}",
    "AKIA" + "Q2" * 8,
    f"AIza{A[:35]}",
    f"xoxb-1234567890-{A}",
    f"1234567890:AA{A[:33]}",
    f"npm_{A}",
    f"hf_{A}",
    f"sk_live_{A}",
    f"eyJ{A}.eyJ{A}.{A}",
    KEY,
    KEY.replace("OPENSSH ", "").replace("\n", "\\n"),
]
PROSE = [
    "the bearer of this letter is a friend",
    "Basic authentication, and Basic Understanding.",
    "https://example.org/a:b@c",
    "https://user@example.org:8080/x",
    "git clone https://u:$TOKEN@example.org/x",
    "git push origin sk-a-branch-with-a-long-name",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    "/usr/lib/python3.11/site-packages/ghp_import.py",
    "[secret] [secret 1]",
    "-----BEGIN CERTIFICATE-----",
]


@pytest.mark.parametrize("known", KNOWN)
@pytest.mark.parametrize("around", ["{}", "x={} y", "curl -H 'X: {}'", '"{}"'])
def test_a_credential_of_a_known_form_is_masked_and_nothing_else(known, around):
    """Wherever it stands in a value, and also twice; the text around it stays."""
    text = around.format(known)
    assert hide({"a": [text, "b"], "c": known}) == {"a": [around.format("[secret 1]"), "b"], "c": "[secret 1]"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("curl -H 'Authorization: Bearer hunter2hunter2' x", "curl -H 'Authorization: Bearer [secret 1]' x"),
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic [secret 1]"),
        ("authorization: tOKen hunter2hunter2", "authorization: tOKen [secret 1]"),
        ("ba\u017fic hunter2hunter2", "ba\u017fic [secret 1]"),
        ("postgres://ana:hunter2@db.example/x", "postgres://ana:[secret 1]@db.example/x"),
        ("redis://:hunter2@db/0 redis://:hunter3@db/0", "redis://:[secret 1]@db/0 redis://:[secret 2]@db/0"),
        ("redis://:hunter2@db/0 [secret 1]", "redis://:[secret 2]@db/0 [secret 1]"),
    ],
)
def test_a_password_of_a_scheme_or_an_address_is_masked(text, shown):
    """Each has its number, which no other text of the call has."""
    assert hide(text) == shown


@given(st.sampled_from(_TOKENS).flatmap(lambda form: st.from_regex(form, fullmatch=True)))
def test_the_quick_look_finds_every_token(token):
    """It is taken first of each text: where it finds nothing, nothing is masked."""
    assert may_hide(token)


@pytest.mark.parametrize("text", PROSE)
def test_a_text_of_no_known_form_is_shown(text):
    """A mask that comes by guess would hide what a person must read."""
    assert hide(text) == text
    assert not hides(text)


KEYS = ["PRIVATE KEY", "RSA PRIVATE KEY", f"{'AKIA' + 'Q2' * 8} PRIVATE KEY", "PGP PRIVATE KEY BLOCK", "KEY"]
MARKS = [f"-----{word} {key}-----" for word in ("BEGIN", "END") for key in KEYS]
PIECES = [*MARKS, *(mark[5:] for mark in MARKS), "-", "-----", "x" * 9, f" {'AKIA' + 'Q2' * 8} ", "redis://:p@h/", "\n"]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join), st.integers(0, 120))
def test_a_private_key_ends_with_the_first_end_that_is_near_enough(text, longest):
    """With its own name, or with the text. One without an end hides nothing, but what else stands in it."""
    written = re.compile(
        r"-----BEGIN (?P<key>[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?)-----"
        rf"[\s\S]{{0,{longest}}}?(?:-----END (?P=key)-----|\Z)"
        r"|(?<![A-Za-z0-9_-])AKIA[A-Z0-9]{16}(?![A-Za-z0-9_])|(?<=redis://:)p(?=@)"
    )
    assert [*search_credentials(text, longest)] == [found.span() for found in written.finditer(text)]


def test_a_text_of_nothing_but_begins_is_read_once():
    """To look for the end of each would take an hour."""
    text = "-----BEGIN PRIVATE KEY-----" * 80_000 + "-----BEGIN RSA PRIVATE KEY-----" + " " * 2_000_001
    assert not [*search_credentials(text, 2_000_000)]


ADDRESSES = ["://", "a", "ab", "1", "h+.-", "x" * 31, ":", "@", "/", "p", "$", "{", " ", "'", "é", "redis://:p@h"]


@given(st.lists(st.sampled_from(ADDRESSES), max_size=14).map("".join))
@example("ab://u:p@h://:q@cd://v:r@")
@example("a://u:p@h 1://u:p@h")
@example(f"a{'1' * 30}://:p@ a{'1' * 31}://:p@")
def test_a_text_with_addresses_alone_is_masked_as_any_other(text):
    """It is searched for its mark first, which is many times faster."""
    assume(not _has_mark(text))
    assert [*search_credentials(text)] == [found.span("password") for found in _CREDENTIALS.finditer(text)]


@given(
    st.sampled_from(["bearer", "basic", "authorization:basic"]).flatmap(
        lambda word: st.tuples(*(st.sampled_from([each, each.upper()]) for each in word)).map("".join)
    ),
    st.sampled_from(["", "é"]),
)
def test_the_quick_look_finds_the_words_before_a_token_in_any_case(word, more):
    """In a text of other letters, too."""
    assert may_hide(f"{more} {word} abcdef012345")


def test_no_credential_is_shorter_than_what_is_looked_at():
    """Most texts are short, and are not searched at all."""
    widths = {token: re._parser.parse(token).getwidth()[0] for token in _TOKENS}
    assert min(widths.values()) == SHORTEST_CHARACTERS
    assert may_hide("xapp-" + "1" * 10)


@pytest.mark.parametrize("begin", ["", "redis://:hunter2@db/0 "])
def test_a_long_text_is_searched_once(begin):
    """An inbox of 500 long calls is drawn again after each decision. Equal texts count, not equal objects."""
    long, called = begin + "x " * REMEMBERED_CHARACTERS, set()
    shown = hide([long])
    before = sys.getprofile()
    sys.setprofile(lambda frame, *_: called.add(frame.f_code))
    again = hide(["".join(list(long))])
    sys.setprofile(before)
    assert again == shown
    assert hide.__code__ in called
    assert not {_has_mark.__code__, search_credentials.__code__} & called


def test_a_text_with_more_credentials_than_are_remembered_is_masked_each_time():
    """What is remembered stays small, whatever an agent sends."""
    text = " ".join(f"redis://:hunter{number}@db/0" for number in range(200))
    assert hide(text) == hide(text) == re.sub(r"hunter(\d+)", lambda each: f"[secret {int(each[1]) + 1}]", text)


TEXTS = st.lists(st.sampled_from([*KNOWN, *PROSE, "redis://:p@h/", "[secret 2]", " ", "x"]), max_size=4).map(" ".join)


@given(st.dictionaries(st.sampled_from("abc"), TEXTS | st.lists(TEXTS, max_size=2), min_size=1))
def test_an_edit_that_leaves_the_masks_keeps_the_values(arguments):
    """What a person sends back as they saw it is what was asked; hiding twice hides no more."""
    shown = hide(arguments)
    assert unmask(shown, msgspec.Raw(msgspec.json.encode(arguments)), ()) == arguments
    assert hide(shown) == shown
