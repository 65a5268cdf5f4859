"""The page of a session that was forked."""

from datetime import UTC, datetime

from supervisor.channels.web.pages.story import story
from supervisor.core import events as e
from supervisor.core.events.asking import COPIED
from supervisor.core.rows import JournalEntry

AT = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_copied_entry_links_to_the_approval_of_its_source():
    """The copy has no approval of its own to be shown."""
    asked = e.QuestionAsked(at=AT, operation="ask:x:0#1", approval=f"{COPIED}a1", question="which?", digest="d")
    forked = e.SessionForked(at=AT, source="s", before=3, by="ana")
    told = story([JournalEntry(1, "f", asked), JournalEntry(2, "f", forked)], {})
    linked = [[part.text for part in entry.parts if part.kind in ("approval", "person")] for entry in told.entries]
    assert [entry.kind for entry in told.entries] == ["question", "life"]
    assert linked == [["a1"], ["ana"]]
