"""Cards on a page: readable, complete, and nothing but text whatever an agent wrote."""

import re
import unicodedata
from datetime import timedelta
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace
from page_facts import NOW, an_approval, asked, at, began, ended, finished, rows

from supervisor.channels.web import rendering
from supervisor.channels.web.pages.inbox import MOST_TEXT_CHARACTERS, card_view, decision_of, inbox
from supervisor.channels.web.pages.markup import parts, spans, text_change
from supervisor.channels.web.pages.rows import row_of
from supervisor.channels.web.pages.story import story
from supervisor.channels.web.pages.visits import Viewer
from supervisor.core.errors import InvalidInput
from supervisor.core.text.visible import visible
from supervisor.core.values import Answer, Approve, Deny, HushedBy, Option, Vote

hostile = st.text() | st.sampled_from(
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "</textarea><script>",
        "{{ 7*7 }}{% raw %}",
        "javascript:alert(1)",
        "\u202etxt.exe",
        "\x1b[2J\x00",
        "' onfocus='x",
        "-->",
    ]
)
TEMPLATES = Path(rendering.__file__).parent / "templates"


class Reader(HTMLParser):
    """What a browser would see of a page."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()
        self.addresses: list[str] = []
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.addresses += [value for name, value in attrs if name in ("href", "src", "action")]

    def handle_data(self, data):
        self.text += data


def test_a_row_says_who_is_on_it_and_who_has_voted():
    """While that holds: a second person who is woken reads it before they open anything."""
    vote = Vote(by="ben", digest="d", quorum=2)
    for minutes, said in ((30, ("ana is on it", "1 of 2: ben")), (-1, ("1 of 2: ben",))):
        on_it = HushedBy("ana", NOW + timedelta(minutes=minutes))
        row = row_of(an_approval(acknowledged=on_it, votes=(vote,), digest="d"), NOW)
        assert row.others == said
    assert row_of(an_approval(status="approved", votes=(vote,)), NOW).others == ()


def page_of(*approvals):
    page = inbox(approvals, len(approvals), NOW, lambda approval: None)
    facts = {"viewer": Viewer("ana"), "here": "inbox", "pending": len(approvals), "most": 50, "stream": "/x"}
    return rendering.render("inbox.html", NOW, page=page, **facts)


KNOWN = Reader(
    page_of(
        an_approval(),
        an_approval(arguments={"old": "a", "new": "", "diff": "@@ -1 +1 @@", "list": ["a"], "do": True}),
    )
)


@given(hostile, hostile, hostile)
def test_hostile_text_never_becomes_markup(text, other, name):
    """Whatever an agent or a tool wrote: no new tag, no new attribute, no address of its own, nothing unseen."""
    approval = an_approval(
        path=(name or "x", other or "y"),
        tool=name,
        arguments={"command": text, other: text, "old_string": text, "new_string": other, "patch": f"@@ {text}"},
        cwd=text,
        requester=other,
        options=(Option("once"), Option("session", text), Option(other, text)),
    )
    asked = a_question(question=text, choices=(text, other), escalated_to=(name,))
    page = page_of(approval, asked, an_approval(status="denied", by=other, reason=text, decided_at=NOW))
    seen = Reader(page)
    assert seen.tags <= KNOWN.tags | {"br"}
    assert seen.attributes <= KNOWN.attributes | {"role", "aria-label"}
    assert all(re.match(r"/(?!/)", address) or address == "#main" for address in seen.addresses)
    assert all(char == "\n" or unicodedata.category(char) not in {"Cc", "Cf", "Cs", "Co", "Cn", "Zl"} for char in page)
    assert visible(text.strip().split("\n")[0][:20]) in seen.text.replace("\n", "") or "\n" in text


def test_a_page_marks_no_mark():
    """Cards have drawn most of what it shows; the brackets of their marks are not marked again."""
    nasty = "a\u202eb\x1b[2J"
    schema = {"type": "object", "properties": {nasty: {"type": "string", "description": nasty, "enum": [nasty, "b"]}}}
    facts = {"path": (nasty, nasty), "requester": nasty, "cwd": nasty, "escalated_to": (nasty,)}
    options = (Option("once"), Option("session", nasty))
    call = an_approval(tool=nasty, arguments={"command": nasty, nasty: nasty, "no": None}, options=options, **facts)
    ended = an_approval(status="denied", by=nasty, reason=nasty, decided_at=NOW, **facts)
    questions = (
        a_question(question=nasty, choices=(nasty, "b")),
        a_question(question=nasty, choices=None, schema=schema),
    )
    page = page_of(call, ended, *questions)
    assert page.count("⟨U+202E⟩") > 20
    assert "27E8" not in page


def test_no_template_can_be_obeyed():
    """Nothing says `safe`, nothing runs or is styled inline, nothing is loaded from elsewhere."""
    for template in TEMPLATES.glob("*.html"):
        source = template.read_text()
        assert not re.search(r"\|\s*safe|autoescape|<style|\son\w+=|\sstyle=|https?://|javascript:", source), template
        assert not re.search(r"\s[\w-]+=\{\{", source), f"{template}: an attribute without quotes"
    assert "unsafe" not in rendering.POLICY


@given(hostile, st.sampled_from(["shell", "patch", "change", "text"]))
def test_colours_change_no_character(text, language):
    """Spans are a partition of the text, whatever it is."""
    shown = visible(text, lines=True)
    assert "".join(span.text for span in spans(shown, language)) == shown


@pytest.mark.parametrize(
    ("command", "kind", "text"),
    [
        ("ls -la", "program", "ls"),
        ("ls -la", "option", "-la"),
        ("a && b", "program", "b"),
        ("echo 'x y'", "string", "'x y'"),
        ('echo "$(rm x)"', "program", "rm"),
        ('echo "a; b"', "string", "a; b"),
        ("\"$f\" 'x'", "string", "'x'"),
        ("cat <(ls)", "program", "ls"),
    ],
)
def test_shell_syntax_has_its_colour(command, kind, text):
    """Programs, options, strings; a substitution in quotes is no string."""
    assert (kind, text) in spans(command, "shell")


@given(st.text("ab\n", max_size=40), st.text("ab\n", max_size=40))
def test_a_change_leaves_out_no_line_of_either_side(old, new):
    """What is replaced, and by what, can be read off the difference."""
    lines = text_change(old, new).split("\n")
    assert "\n".join(line[1:] for line in lines if line[0] in " -") == old
    assert "\n".join(line[1:] for line in lines if line[0] in " +") == new


def test_a_very_long_text_is_shown_whole_and_fills_the_page():
    """What is too long to be coloured is one piece, and a page has as many open cards as it has room for."""
    much = '"$(' * (MOST_TEXT_CHARACTERS // 3 + 1)
    asked = [an_approval(id=name, tool="shell", arguments={"command": much}) for name in ("one", "two")]
    assert spans(much, "shell") == [("", much)]
    page = inbox(asked, 7, NOW, lambda approval: None)
    assert ([card.id for card in page.cards], page.left_out) == (["one"], 5)
    assert [each.row.id for each in page.sections[0].entries] == ["one", "two"]


def test_an_edit_of_any_length_is_shown_as_what_it_changes():
    """Each changed line is marked and in sight; unchanged ones are folded, and the card says how many lines change."""
    view = card_view(an_approval(arguments={"path": "x", "old_string": "a\nb", "new_string": "a\nc"}), NOW)
    assert ("removed", "-b\n") in view.facts[-1].spans
    old = [f"line {number}" for number in range(2000)]
    new = [*old[:250], "one", *old[251:1800], "two", *old[1801:]]
    (fact,) = card_view(an_approval(arguments={"old_string": "\n".join(old), "new_string": "\n".join(new)}), NOW).facts
    marked = [span.text for span in fact.spans if span.kind]
    assert marked == ["-line 250\n", "+one\n", "-line 1800\n", "+two\n"]
    assert [part.lines for part in fact.parts if part.fold == "same"] == [247, 1543, 196]
    assert (fact.note, sum(part.lines for part in fact.parts if not part.fold)) == ("+2 \N{MINUS SIGN}2", 16)


@pytest.mark.parametrize("given", [{f"k{n}": f"v{n}" for n in range(600)}, {f"k{n}": "a\n" * 300 for n in range(30)}])
def test_of_very_many_arguments_the_middle_is_folded_and_none_is_left_out(given):
    """The buttons of a card are not many screens below its beginning. The page unfolds it before Approve counts."""
    view = card_view(an_approval(tool="t", command=None, arguments=given), NOW)
    first, middle, last = view.in_parts
    assert (*first, *middle, *last) == view.facts
    assert all((first, middle, last))
    assert sum(fact.rows for fact in (*first, *last)) < 160
    few = card_view(an_approval(), NOW)
    assert few.in_parts == (few.facts, (), ())


def test_a_patch_folds_no_line_that_it_calls_unchanged():
    """What stands in the text of an agent is part of what runs: only its middle is folded, and must be opened."""
    patch = "@@ -1 +1 @@\n" + "".join(f" line {number}\n" for number in range(500)) + "+last"
    (fact,) = card_view(an_approval(arguments={"patch": patch}), NOW).facts
    assert [part.fold for part in fact.parts] == ["", "middle", ""]
    assert ("added", "+last") in fact.spans
    assert "".join(span.text for part in fact.parts for span in part.spans) == patch


@given(hostile, st.integers(0, 90), st.sampled_from(["shell", "patch", "change", "text"]))
def test_folding_leaves_out_no_character(text, times, language):
    """Parts are a partition of the text, and of a long one only the ends are in sight."""
    shown = visible(f"{text}\n" * times, lines=True)
    found = parts(shown, language)
    assert "".join(span.text for part in found for span in part.spans) == shown


def test_cards_that_run_different_things_have_different_names():
    """For a screen reader: in another argument, in another folder, for another person, or far into a long text."""
    calls = [
        {"arguments": {"query": "UPDATE a", "database": "staging"}},
        {"arguments": {"query": "UPDATE a", "database": "production"}},
        {"cwd": "/srv/demo"},
        {"cwd": "/srv/live"},
        {"requester": "bob"},
        {"root_session": "other"},
        {"arguments": {"text": "a" * 5000 + "b" + "a" * 5000}, "id": "long-1"},
        {"arguments": {"text": "a" * 5000 + "c" + "a" * 5000}, "id": "long-2"},
    ]
    names = [row_of(an_approval(**each), NOW).name for each in calls]
    assert len({*names}) == len(calls)
    assert max(map(len, names)) < 600


def test_the_inbox_has_a_section_for_each_session_and_urgent_ones_on_top():
    """Questions, then what expires first, then each session with its oldest request."""
    asked = [an_approval(id=f"{number}", root_session=f"s{number % 3}", created_at=at(number)) for number in range(9)]
    late = an_approval(id="late", root_session="s1", created_at=at(9), expires_at=at(9000))
    soon = an_approval(id="soon", root_session="s2", created_at=at(10), expires_at=at(8000))
    page = inbox([*asked, late, soon, a_question(id="why", root_session="s1")], 12, NOW, lambda approval: None)
    found = [(section.root, [each.row.id for each in section.entries]) for section in page.sections]
    assert found == [
        ("", ["why", "soon", "late"]),
        ("s0", ["0", "3", "6"]),
        ("s1", ["1", "4", "7"]),
        ("s2", ["2", "5", "8"]),
    ]
    assert page.sections[1].oldest == at(0)
    assert page.cards == []


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("rm -rf build", "rm"),
        ("A=1 git push && $X y", "git, a program that only the shell knows"),
        ("for f in *; do rm $f; done | sh", "rm, sh (sh may run what it is given)"),
        (["make", "all"], "make (make may run what it is given)"),
        ("echo `id`", "echo, a program that only the shell knows, perhaps more: not all of it can be read for certain"),
    ],
)
def test_a_command_says_which_programs_it_runs(command, told):
    """By our own reading, which finds every place where a program could begin, and says what it cannot know."""
    view = card_view(an_approval(arguments={"command": command}), NOW)
    (fact,) = [each for each in view.facts if each.label == "programs"]
    assert "".join(span.text for span in fact.spans) == told


def test_a_decided_call_of_a_blocked_session_says_that_it_has_not_run():
    """Approving it was not in vain, and nothing has happened yet."""
    approved = an_approval(status="approved", by="bob", decided_at=NOW, blocked=True)
    assert "has not run" in card_view(approved, NOW).block
    assert card_view(replace(approved, status="denied"), NOW).block == ""


def test_a_pattern_is_shown_where_it_is_granted():
    """A7: what will not be asked again is on the card, word by word, before it is granted."""
    view = card_view(an_approval(), NOW)
    assert [(grant.words, grant.pattern) for grant in view.grants] == [
        ("for the session", "shell rm 'a b'"),
        ("always", "shell rm *"),
    ]
    text = Reader(page_of(an_approval())).text
    assert "shell rm *" in text
    assert [grant.value for grant in view.grants] == ["1", "2"]


@pytest.mark.parametrize(
    ("cwd", "where"),
    [("/var", "/var"), ("/srv", "/srv"), ("logs", "/srv/logs"), (7, "/srv"), (["/srv"], "/srv"), ({"a": 1}, "/srv")],
)
def test_an_argument_named_cwd_is_the_place_or_is_shown(cwd, where):
    """It is left out only where the place says all of it: a relative one gives the tool another value than a call
    that names the same folder in full, and one that is the session's folder another than a call that names none."""
    view = card_view(an_approval(tool="build", arguments={"target": "x", "cwd": cwd}), NOW)
    labels = [fact.label for fact in view.facts]
    assert labels == (['"target"'] if cwd == "/var" else ['"target"', '"cwd"'])
    assert view.where == where


def test_a_decided_card_offers_nothing():
    """R3: it says who and why, and has no button."""
    view = card_view(an_approval(status="denied", by="bob", reason="no", decided_at=NOW), NOW)
    facts = {"view": view, "viewer": Viewer("ana"), "here": "", "pending": 0, "stream": "/x"}
    page = rendering.render("approval.html", NOW, told="", problem="", typed=None, **facts)
    assert "bob" in page
    assert 'value="approve"' not in page


def test_a_person_who_may_not_decide_sees_why_and_gets_no_button():
    """A4: the reason stands where the buttons would."""
    view = card_view(an_approval(), NOW, refusal="reserved for bob")
    facts = {"view": view, "viewer": Viewer("ana"), "here": "", "pending": 1, "stream": "/x"}
    page = rendering.render("approval.html", NOW, told="", problem="", typed=None, **facts)
    assert "reserved for bob" in page
    assert 'value="approve"' not in page


def test_forms_become_decisions():
    """A button decides what its label says, by the person who pressed it."""
    approval = an_approval()
    assert decision_of(approval, {"decision": "approve"}, "ana") == Approve(by="ana")
    assert decision_of(approval, {"decision": "deny", "reason": " no "}, "ana") == Deny(by="ana", reason="no")
    allowing = decision_of(approval, {"decision": "approve", "grant": "2"}, "ana")
    assert allowing == Approve(by="ana", scope="always", pattern="rm *")
    edited = decision_of(approval, {"decision": "edit", "arguments": '{"command": "ls"}'}, "ana")
    assert edited == Approve(by="ana", arguments={"command": "ls"})


def a_question(**changes):
    facts = {"kind": "question", "question": "Which?", "tool": "", "arguments": None, "options": ()}
    return an_approval(**{**facts, **changes})


def test_a_question_is_answered_by_its_buttons_or_in_words():
    """A choice is sent by its place: no text of an agent's is ever taken for another one."""
    several = a_question(choices=("yes", "<b>no</b>"))
    assert [reply.words for reply in card_view(several, NOW).replies] == ["“yes”", "“<b>no</b>”"]
    assert decision_of(several, {"decision": "answer", "reply": "1"}, "ana") == Answer(value="<b>no</b>", by="ana")
    sure = a_question(schema={"type": "boolean"})
    assert decision_of(sure, {"decision": "answer", "reply": "no"}, "ana") == Answer(value=False, by="ana")
    number = a_question(schema={"type": "integer"})
    assert decision_of(number, {"decision": "answer", "answer": "7"}, "ana") == Answer(value=7, by="ana")
    assert decision_of(a_question(), {"decision": "answer", "answer": "a\r\nb"}, "ana") == Answer(
        value="a\nb", by="ana"
    )
    for form in ({}, {"reply": "7"}, {"reply": "yes"}, {"answer": "yes"}):
        with pytest.raises(InvalidInput):
            decision_of(several, {"decision": "answer", **form}, "ana")
    with pytest.raises(InvalidInput):
        decision_of(a_question(), {"decision": "answer", "answer": "  "}, "ana")


@pytest.mark.parametrize(
    "form",
    [
        {},
        {"decision": "yes"},
        {"decision": "edit", "arguments": "{"},
        {"decision": "edit", "arguments": "[1]"},
        {"decision": "edit"},
        {"decision": "approve", "grant": "9"},
        {"decision": "approve", "grant": "-1"},
        {"decision": "approve", "grant": "²"},
    ],
)
def test_a_form_that_fits_nothing_decides_nothing(form):
    """A5: what was not offered, or cannot be read, is refused in words."""
    with pytest.raises(InvalidInput):
        decision_of(an_approval(), form, "ana")


def test_a_story_tells_a_call_once_with_its_question_and_its_answer():
    """A15: who was asked, what was answered, what came of it, in one place; a long story says what it leaves out."""
    found = story(rows(*began(), asked(5), finished(9), ended(10)), {})
    (call,) = [entry for entry in found.entries if entry.kind == "call"]
    told = [(part.kind, part.text) for part in call.parts if part.kind != "words"]
    asking = [("name", "shell"), ("command", "make"), ("approval", "a1")]
    assert told == [*asking, ("state", "ok"), ("output", "out")]
    assert story(rows(*began(), asked(5), ended(10)), {}, most=1).left_out == 4


def test_a_page_of_a_session_shows_where_its_code_raised():
    """A traceback stands with what it explains: the end of a run, a call, a step."""
    lost = replace(ended(10), kind="failed", cause="KeyError: 5", traceback='File "agents.py", line 7, in <module>')
    (entry,) = [entry for entry in story(rows(*began(), lost), {}).entries if entry.state == "failed"]
    page = rendering.environment().from_string('{% import "parts.html" as parts %}{% include "entry.html" %}')
    assert "agents.py&#34;, line 7, in &lt;module&gt;" in page.render(entry=entry, now=NOW)


def test_a_phone_shows_each_name_and_value_and_choice_as_it_is(one_daemon, person):
    """No name pushes its value off the screen, and two spaces are not one."""
    names = ["n" * 90, "\u5b57" * 60, "a " * 60, "\u05d0" * 60, "a\u0301" * 40, "a b", "a  b"]
    call = an_approval(
        arguments=dict.fromkeys(names, "VALUE"), command=None, cwd="/srv/a  b", options=(Option("once"),)
    )
    ana = person(one_daemon, viewport={"width": 320, "height": 640})

    def show(approval):
        facts = {"view": card_view(approval, NOW), "viewer": Viewer("ana"), "here": "", "pending": 1, "stream": "/"}
        page = rendering.render("approval.html", NOW, told="", problem="", typed=None, **facts)
        ana.page.set_content(page, wait_until="load")

    show(call)
    assert ana.page.evaluate("document.documentElement.scrollWidth") == 320
    values = [each.bounding_box() for each in ana.page.locator(".fact .value", has_text="VALUE").all()]
    assert len(values) == len(names)
    assert all(box["x"] + box["width"] < 320 and box["width"] > 30 for box in values)
    told = ana.page.locator("#cards").inner_text().splitlines()
    assert {'"a b"', '"a  b"'} <= set(told)
    assert any("/srv/a  b" in line for line in told)
    choices = ("red wine", "red  wine", "w" * 200)
    show(an_approval(kind="question", question="What?", choices=choices, options=()))
    assert ana.page.evaluate("document.documentElement.scrollWidth") == 320
    shown = ana.page.locator(".answers button").all_inner_texts()
    assert [words.strip("\u201c\u201d") for words in shown] == list(choices)
    wine = {"enum": ["red wine", "red  wine"]}
    names = ["a wine", "a  wine"]
    show(
        an_approval(
            kind="question",
            question="What?",
            schema={"type": "object", "properties": dict.fromkeys(names, wine), "required": names},
            options=(),
        )
    )
    labels = ana.page.locator("option").evaluate_all("every => every.map(each => each.label)")
    assert [label for label in labels if "wine" in label] == [*wine["enum"], *wine["enum"]]
    assert [each for each in ana.page.locator(".field > label").all_inner_texts() if "wine" in each] == names
