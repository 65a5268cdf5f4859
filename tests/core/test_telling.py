"""Every event is told in parts, and no part brings a credential or a control character to a screen."""

from collections.abc import Iterator
from datetime import datetime

import msgspec
import pytest
from journals import AT, SYMBOLS, event_of
from msgspec import Raw
from msgspec.structs import replace

from supervisor.channels.web.pages.story import MOST_ENTRIES, story
from supervisor.channels.web.rendering import MOST_CHARACTERS, environment
from supervisor.cli.story import Story
from supervisor.core import events as e, telling
from supervisor.core.approvals.masking import masked_event
from supervisor.core.blocking import Block
from supervisor.core.calls.rules import Rule
from supervisor.core.rows import JournalEntry
from supervisor.core.telling import JSON, Law, Telling, drawn

TOKEN = "ghp_a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
NASTY = f"<b>\x1b[2J\u202e {TOKEN}"
CUT = [law for law in vars(telling).values() if isinstance(law, Law) and law.is_hostile and law.may_be_cut]
IDS = {"operation", "event", "approval", "child", "source", "fork"}
"""Which are in addresses, too."""


def hostile(event: e.AnyEvent) -> Iterator[tuple[str, e.AnyEvent]]:
    """Yield the event with a hostile text in each of its fields that takes any."""
    for field in msgspec.structs.fields(event):
        values = {
            str: NASTY,
            str | None: NASTY,
            tuple[str, ...]: (NASTY,),
            Raw: Raw(msgspec.json.encode({"command": NASTY})),
            tuple[str, str] | None: (NASTY, NASTY),
            Block: Block(why="path", cause=NASTY),
            Rule: Rule(kind="deny", tool=NASTY, pattern=NASTY, reason=NASTY, id=NASTY),
        }
        if field.name not in IDS and (value := values.get(field.type)) is not None:
            yield field.name, replace(event, **{field.name: value})


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_no_telling_shows_a_credential_or_a_control_character(symbol):
    """Whatever field of whatever event an agent wrote it in: in lines, and on a page."""
    template = environment().from_string('{% import "parts.html" as parts %}{% include "entry.html" %}')
    for name, event in hostile(event_of(symbol)):
        row = JournalEntry(1, "s", masked_event(event))
        page = "".join(template.render(entry=each, now=AT) for each in story([row], {}).entries)
        for seen in (Story().tell(row, AT), Story(brief=True).tell(row, AT), page):
            assert not [bad for bad in (TOKEN, "\x1b", "\u202e", "<b>\x1b") if bad in seen], name


@pytest.mark.parametrize("law", CUT, ids=lambda law: law.kind)
@pytest.mark.parametrize("lines", [False, True])
def test_a_credential_is_masked_before_the_text_is_cut(law, lines):
    """Also one that begins before the cut and ends after it: its beginning would be shown."""
    for before in range(80, 100):
        text = f"{'x' * before} {TOKEN} and more"
        shown = drawn(law(f'"{text}"' if law is JSON else text), 100, lines=lines)
        assert len(shown) <= 100
        assert TOKEN[:8] not in shown


def test_a_message_reported_in_pieces_is_masked_whole():
    """A credential that two pieces share is in neither of them."""
    pieces = [e.Reported(at=AT, kind="text", text=text) for text in (f"it is {TOKEN[:20]}", TOKEN[20:])]
    (entry,) = story([JournalEntry(n, "s", each) for n, each in enumerate(pieces)], {}).entries
    assert [drawn(part, MOST_CHARACTERS, lines=True) for part in entry.parts if part.kind == "said"] == [
        "it is [secret 1]"
    ]


def test_the_page_tells_an_event_in_the_words_of_show():
    """One telling: the words of ours in an entry's first sentence are those of the line."""
    for symbol in SYMBOLS:
        row = JournalEntry(1, "s", event_of(symbol))
        for entry in story([row], {}, MOST_ENTRIES).entries:
            line = Story().tell(row, datetime.now().astimezone())
            ours = [part.text for part in entry.told[0] if part.kind in ("words", "state")]
            assert all(text in line for text in ours), symbol


def test_ids_and_persons_are_never_cut():
    """A line with a part of one would name another."""
    long = "a" * 500
    told = Telling().tell(JournalEntry(1, "s", event_of("ApprovalDecided.approve", by=long, approval=long)))
    assert [drawn(part) for part in told if part.kind in ("person", "approval")] == [long, long]
