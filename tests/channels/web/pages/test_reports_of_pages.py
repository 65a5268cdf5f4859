"""The story of a session whose agent reports: marked, joined, and in no other entry's place."""

from page_facts import NOW, asked, at, began, rows

from supervisor.channels.web.pages.story import MOST_ENTRIES, story
from supervisor.channels.web.rendering import MOST_CHARACTERS, environment, told as drawn
from supervisor.core import events as e


def reported(text: str, kind: str = "text", **facts) -> e.Reported:
    return e.Reported(at=at(1), kind=kind, text=text, **facts)


def text_of(entry) -> str:
    return "".join(drawn(part) for part in entry.parts if part.law.is_block)


def told(*events):
    return [each for each in story(rows(*began(), *events), {}).entries if each.kind == "report"]


def test_pieces_of_a_message_that_were_written_one_by_one_are_one_entry():
    """Up to another entry; a message of another id is another one."""
    events = [reported("I "), reported("look"), reported("next", call="m2"), asked(2), reported("more", call="m2")]
    assert [text_of(each) for each in told(*events)] == ["I look", "next", "more"]
    plans = [reported("x", "plan"), reported("x", "plan")]
    assert [text_of(each) for each in told(*plans)] == ["x", "x"]


def test_a_message_of_many_pieces_is_cut_and_says_what_the_journal_lacks():
    (entry,) = told(*[reported("x" * 9000)] * 3, reported("y", left_out=7))
    assert (len(text_of(entry)), entry.is_cut) == (MOST_CHARACTERS, True)
    assert "7 more bytes" in [part.text for part in entry.parts if part.kind == "words"][-1]


def test_an_agent_cannot_hide_its_calls_by_reporting_much():
    """The latest calls are on the page, however many reports come after them."""
    found = story(rows(*began(), asked(2), *[reported(str(n), "plan") for n in range(5 * MOST_ENTRIES)]), {})
    assert "call" in [each.kind for each in found.entries]
    assert [text_of(each) for each in found.entries][-1] == str(5 * MOST_ENTRIES - 1)
    assert len(found.entries) + found.left_out == 5 * MOST_ENTRIES + len(story(rows(*began(), asked(2)), {}).entries)


def test_a_report_is_marked_and_its_text_commands_no_browser():
    nasty = "<script>alert(1)</script>\u202e\x1b[2J"
    (entry,) = told(reported(nasty, "result", tool=nasty, call=nasty, is_error=True))
    parts = environment().from_string('{% import "parts.html" as parts %}{% include "entry.html" %}')
    page = parts.render(entry=entry, now=NOW)
    assert ">reported</span>" in page
    assert page.count("&lt;script&gt;") == 2
    assert not {"<script>", "\u202e", "\x1b"} & {each for each in ("<script>", "\u202e", "\x1b") if each in page}
