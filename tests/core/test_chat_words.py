"""A12: chat words are decisions only as a whole message."""

import pytest

from supervisor.core.approvals.chat_words import Word, read_short, read_word
from supervisor.core.approvals.near_words import is_near_word

ID = "abcdefghij234567abcdefghijklmnopqrstuv2345"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("yes", Word(said="yes")),
        (" Approve\n", Word(said="approve")),
        ("NO", Word(said="no")),
        ("reject", Word(said="reject")),
        (f"yes {ID}", Word(said="yes", approval=ID)),
        (f"no {'7' * 16}", Word(said="no", approval="7" * 16)),
        (f"no {'z' * 80}", Word(said="no", approval="z" * 80)),
        (f"reject  {ID.upper()}", Word(said="reject", approval=ID)),
        ("approve all", Word(said="approve", all=True)),
        ("no for session", Word(said="no", scope="session")),
        (f"Reject {ID.upper()} always", Word(said="reject", approval=ID, scope="always")),
        ("Approve all for session", Word(said="approve", all=True, for_session=True)),
        ("yes next 10", Word(said="yes", scope="session", uses=10)),
        (f"Approve {ID} the next 3", Word(said="approve", approval=ID, scope="session", uses=3)),
        ("yes for 15 minutes", Word(said="yes", scope="session", minutes=15)),
        (f"yes {ID} for 5m", Word(said="yes", approval=ID, scope="session", minutes=5)),
    ],
)
def test_a_word_alone_is_a_decision(text, word):
    """With an id or without; in upper or lower case."""
    assert read_word(text) == word


@pytest.mark.parametrize(
    "text",
    [
        "do NOT run that",
        "yes please",
        "no, wait",
        "yes.",
        "> yes",
        '"yes"',
        "yes\nno",
        "yes yes",
        "yes\x00",
        "yes\u200b",
        "\uff59\uff45\uff53",
        "approve nothing",
        "approve all of it",
        "yes next",
        "yes next 0",
        "yes next 1000",
        "yes next -1",
        "yes next 10 and go on",
        "yes for 15 minutes please",
        "no next 10",
        "yes for 15",
        "approve all next 10",
        f"yes {ID} next ten",
        "yes all",
        "reject all",
        "approve all for session please",
        f"yes {ID} {ID}",
        f"{ID} yes",
        f"yes-{ID}",
        f"yes {'a' * 15}",
        f"yes {'a' * 81}",
        "approved",
        "/approve",
        "no\u017f",
        "",
    ],
)
def test_everything_else_is_chat(text):
    """No word is found in a sentence, a quotation, or a text that only looks like a word."""
    assert read_word(text) is None


NEAR = r"""
ok|OK!|Yes!|approve.|yes please|go ahead|sure|deny|y|👍|✅|:+1:|+1|yesss|aprove|sounds good|do it|yes, run it|no, wait|?
d'accord|nein, danke|sí|да|はい|네|好的|हाँ|نعم|"yes"|> yes|/approve|I approve|of course|approve all of it
"""


@pytest.mark.parametrize("text", [*NEAR.strip().replace("\n", "|").split("|"), "yes\u200b", "\uff59\uff45\uff53"])
def test_a_text_that_says_only_yes_or_no_is_nearly_a_word(text):
    """In other words, other languages, or none; it is no decision all the same."""
    assert is_near_word(text)
    assert read_word(text) is None


@pytest.mark.parametrize(
    "text", ["do NOT run that", "yes, but use staging", "deploy it", "run", "1", "what is it?", "ok " * 100, " ", ""]
)
def test_a_text_that_says_more_is_no_near_word(text):
    """An order to the agent, a question to it, or a long text is a message."""
    assert not is_near_word(text)


@pytest.mark.parametrize(("text", "uses"), [("yes abcdef next 2", 2), ("approve abcdef for 5 min", None)])
def test_a_short_id_may_stand_in_a_word_with_an_end(text, uses):
    """It is one only if an approval that waits begins so: read_word does not know that."""
    word, short = read_short(text)
    assert (short, word.uses, word.approval, read_word(text)) == ("abcdef", uses, None, None)
