"""Events of forks: that a session begins with a copy of another one's journal, and that one was taken. Rules as in
core/events.py; what is copied is in core/forking.py."""

from supervisor.core.facts import Event, traits


@traits("wakes")
class SessionForked(Event, frozen=True, kw_only=True):
    """All entries before this one are a copy: what they say happened in session `source`, before its entry `before`.

    The run goes on from here with `version` of its code; None: the version that is current when it goes on.
    """

    source: str
    before: int
    by: str
    version: str | None = None


@traits("audited", "not copied", "no progress")
class ForkTaken(Event, frozen=True, kw_only=True):
    """Session `fork` begins with a copy of this session, as it was before its entry `before`. Nothing else changed."""

    fork: str
    before: int
    by: str
